"""Links, connections and the ordered frames of each call, between two simulated nodes.

A connection is to a call what a TCP connection is to gRPC: many calls share it, and they end with
it. The frames of one call and direction arrive in their order, those of different calls in any.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.network.client_call import ClientCall
    from strandline_proof.sim.network.duplicates import Echoes
    from strandline_proof.sim.network.network import NodeNetwork, SimNetwork
    from strandline_proof.sim.network.server_call import ServerCall


class Blocked(enum.Enum):
    """The effect of a partition on frames that are sent during it."""

    HOLD = "hold"
    """The frame arrives late, after the partition, if the connection lives so long."""
    DROP = "drop"
    """The frame is lost, and the connection with it."""


class Link:
    """One direction between two nodes. `blocks` counts the partitions, to tell two apart."""

    def __init__(self) -> None:
        self.blocked: Blocked | None = None
        self.blocks = 0
        self.slow_s = 0.0
        self.loss = 0.0
        """The probability that a segment is lost, and sent again by TCP a while later."""
        self.echoes: Echoes | None = None
        """Set while requests arrive twice."""
        self.held: deque[tuple[End, Pipe | None, Callable[[], None]]] = deque()
        """Held frames in order: the sender of each, and the call that sends it again."""


class CallSide(Protocol):
    """A call, as the end of a connection sees it."""

    def on_broken(self, why: str) -> None: ...


class End:
    """One side of a connection. A closed side receives nothing, and sends nothing."""

    def __init__(self, node: NodeNetwork) -> None:
        self.node = node
        self.is_open = True
        self.going_away = False
        """True if the server takes no new calls here."""
        self.peer: End = self
        self.calls: dict[int, CallSide] = {}
        self.last_arrival_s = 0.0
        """The time at which the last frame of this side arrives at the other."""
        self.has_lost = False
        """True if a frame of this side will never arrive."""
        self.accept_call: Callable[[ClientCall, Any, float | None], ServerCall] | None = None
        """Set at a server's end."""
        self.on_closed: Callable[[End], None] = _nothing
        self.on_going_away: Callable[[End], None] = _nothing

    def break_down(self, why: str) -> None:
        """The transport is gone, and with it every call that used it."""
        if not self.is_open:
            return
        self.close()
        calls = list(self.calls.values())
        self.calls.clear()
        for call in calls:
            call.on_broken(why)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.node.ends.pop(id(self), None)
            self.on_closed(self)

    def go_away(self) -> None:
        self.going_away = True
        self.on_going_away(self)


def _nothing(end: End) -> None:
    pass


def connect(client: NodeNetwork, server: NodeNetwork) -> tuple[End, End]:
    """The two ends of a new connection."""
    near, far = End(client), End(server)
    near.peer, far.peer = far, near
    for end in (near, far):
        end.node.ends[id(end)] = end
    return near, far


class Pipe:
    """The frames of one call in one direction: delivered in order, each at a time of its own."""

    def __init__(self, network: SimNetwork, source: End) -> None:
        self._network = network
        self.source = source
        self.link: Link | None = None
        """The link of its frames, once it has one."""
        self.last_arrival_s = 0.0
        self.is_lost = False
        """True if a frame is missing: no frame after it can ever be delivered."""
        self.stuck_until_s = 0.0
        """A frame that has not arrived by then takes longer than on any sound connection."""
        self.late_s = 0.0
        """Extra delay of its frames, as the client has given the stream up."""
        self._in_flight: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def send(self, deliver: Callable[..., None], *args: Any) -> None:
        """Calls `deliver` at the other end when the frame arrives, if both ends live so long."""
        self._network.transmit(self, deliver, args)

    def put(self, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._in_flight.append((deliver, args))

    def arrive(self) -> None:
        """The next frame is due; timers of the same moment may come in any order."""
        if self.late_s > 0:
            self._network.later(self.late_s, self.source.peer.node.owner, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        deliver, args = self._in_flight.popleft()
        if self.source.peer.is_open:
            deliver(*args)
