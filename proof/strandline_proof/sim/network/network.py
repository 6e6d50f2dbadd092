"""The simulated network: nodes, ports, connections and the faults between them.

`SimNetwork.node(name)` gives each life of a node its `Runtime.network`. Names are host names;
`localhost` and numeric addresses mean the node itself. One generator supplies all chance, in the
order of the calls.

The faults:

- `kill` ends a process, whose kernel resets its connections
- `power_off` leaves them silent, until keepalive gives up or the machine is back and answers with a
reset
- `partition` holds or drops what is sent between two nodes
- `slow` and `lossy` delay it
- `duplicate` lets requests arrive twice (`duplicates.py`)
- messages stuck in a stream that its client gives up may arrive after those of a newer stream, as
over a connection that is half dead

Not modelled are flow control, limits on sizes, pings as such, and the back-off of an idle channel.
Nor are calls that gRPC retries by itself because they never left the client.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
from typing import TYPE_CHECKING, Any, Final, cast

from strandline_proof.sim.network.byte_streams import SimByteStream, SimListener, open_stream
from strandline_proof.sim.network.channel import SimChannel
from strandline_proof.sim.network.connection import Blocked, End, Link, Pipe, connect
from strandline_proof.sim.network.duplicates import Echoer, Echoes
from strandline_proof.sim.network.server import SimServer
from strandline_runtime.runtime import CONNECTIONS_MAX, Probe

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Protocol

    import grpc.aio

    from strandline_runtime.runtime import ByteStream

    class Acceptor(Protocol):
        """What listens on a port: a gRPC server or a listener of byte streams."""

        def on_connect(self, client: NodeNetwork, opened: Callable[[End], None]) -> None: ...

    class Post(Protocol):
        def __call__(
            self, delay_s: float, owner: Any, callback: Callable[..., Any], /, *args: Any
        ) -> object:
            """Call it after a delay as `owner`; None is the network itself."""
            ...


LATENCY_S: Final = 0.0001
SPREAD_S: Final = 0.0009
TAIL: Final = 0.01
TAIL_S: Final = 0.02
"""Longest delay of one message in a hundred."""
RETRANSMISSION_S: Final = 0.2
RETRANSMISSIONS_MAX: Final = 5
KEEPALIVE_S: Final = (5.0, 15.0)
"""Life of a silent connection: the channel options' ping interval and its timeout."""
LATE_S_MAX: Final = 3.0
"""Longest delay after a partition, as TCP retries in its own time."""
STUCK_S: Final = 0.1
"""A message under way for longer is on a connection that does not work as it should."""
GIVEN_UP_LATE: Final = 0.5
GIVEN_UP_LATE_S_MAX: Final = 2.0
"""The greatest extra delay of messages stuck in a stream that was given up, and the share of such
streams.
"""
FIRST_PORT: Final = 40_000
OWN_HOSTS: Final = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]", "")


class SimNetwork:
    def __init__(
        self,
        rng: random.Random,
        *,
        now: Callable[[], float],
        post: Post,
        deliver: Post | None = None,
        others_are_due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._rng = rng
        self._now = now
        self._post = post
        self._deliver = deliver or post
        """Posts frames of calls, which tasks read later."""
        self.others_are_due = others_are_due
        """True if a write lets anything else of its process go first: a write always yields."""
        self._links: dict[tuple[str, str], Link] = {}
        self._nodes: dict[str, NodeNetwork] = {}
        self._dark: set[str] = set()
        """Machines without power."""
        self._ports = itertools.count(FIRST_PORT)
        self.call_ids = itertools.count(1)
        self.echoer = Echoer(self)
        self.late_streams = 0
        """The number of messages that came late in a stream that was given up."""
        self.overhear: Callable[[str, str], Any] = lambda node, method: None
        """Returns the listener to a call of that method of the node's server; called once for each
        call.
        """
        self.on_handler_error: Callable[[str, str, Exception], None] | None = None
        """Called with an exception that a handler raised: node, method, exception."""

    @classmethod
    def on_loop(cls, loop: asyncio.AbstractEventLoop, rng: random.Random) -> SimNetwork:
        """A network on any asyncio loop, where callbacks have no owner."""

        def post(delay_s: float, owner: Any, callback: Callable[..., Any], /, *args: Any) -> object:
            return loop.call_later(delay_s, callback, *args)

        return cls(rng, now=loop.time, post=post)

    def node(self, name: str, owner: Any = None) -> NodeNetwork:
        """A new life of the node. Its arriving messages are handled as `owner`."""
        before = self._nodes.get(name)
        assert before is None or not before.alive, f"{name} is alive"
        self.power_on(name)
        node = self._nodes[name] = NodeNetwork(self, name, owner)
        return node

    # Faults

    def kill(self, name: str) -> None:
        """The process ends at once; its kernel closes the connections."""
        node = self._nodes[name]
        for end in self._end_life(node):
            # Data in flight may still be read, or be overtaken by a reset.
            self.hang_up(end, "Connection reset by peer", in_order=self._rng.random() < 0.5)

    def power_off(self, name: str) -> None:
        """The machine falls silent; its peers find out in their own time."""
        self._dark.add(name)
        for end in self._end_life(self._nodes[name]):
            self._later(self._rng.uniform(*KEEPALIVE_S), end.peer, "keepalive watchdog timeout")

    def power_on(self, name: str) -> None:
        """The machine runs again, without a process: it refuses connections, and resets unknown
        ones.
        """
        if name not in self._dark:
            return
        self._dark.discard(name)
        for end in self._all_ends():
            if end.peer.node.name == name and not end.peer.is_open and end.has_lost:
                self._later(self._rng.uniform(0, 1), end, "Connection reset by peer")

    def partition(self, a: str, b: str, *, hold: bool = False, one_way: bool = False) -> None:
        """Blocks everything from a to b, and from b to a unless `one_way`, until `heal`."""
        blocked = Blocked.HOLD if hold else Blocked.DROP
        for pair in [(a, b)] if one_way else [(a, b), (b, a)]:
            link = self._link(*pair)
            link.blocked = blocked
            link.blocks += 1
            for end in self._all_ends():
                if (end.node.name, end.peer.node.name) == pair:
                    delay_s = self._rng.uniform(*KEEPALIVE_S)
                    self._post(delay_s, None, self._give_up, link, link.blocks, end)

    def slow(self, a: str, b: str, ms: float) -> None:
        """Delays every message between the two by so much, until `heal`."""
        for pair in ((a, b), (b, a)):
            self._link(*pair).slow_s = ms / 1000

    def lossy(self, a: str, b: str, probability: float) -> None:
        """Delays a share of the messages between the two, as TCP must send them again, until
        `heal`.
        """
        for pair in ((a, b), (b, a)):
            self._link(*pair).loss = probability

    def duplicate(self, a: str, b: str, echoes: Echoes) -> None:
        """Makes requests between the two arrive twice, until `heal`. Their connections are reset,
        so that streams begin again.
        """
        for pair in ((a, b), (b, a)):
            self._link(*pair).echoes = echoes
        self.reset(a, b)

    def reset(self, a: str, b: str) -> None:
        """Resets every connection between the two: what is under way is lost, on either side."""
        for end in self._between(a, b):
            self._later(0, end, "Connection reset by peer")

    def forget(self, a: str, b: str) -> None:
        """Makes b drop its connections with a silently: a finds out when it sends, or by its
        keepalive's ping.
        """
        for end in self._between(a, b):
            if end.node.name == b:
                self._later(0, end, "Connection timed out")
                self._later(self._rng.uniform(*KEEPALIVE_S), end.peer, "Connection reset by peer")

    def _between(self, a: str, b: str) -> list[End]:
        return [e for e in self._all_ends() if {e.node.name, e.peer.node.name} == {a, b}]

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """Ends every fault of the links, or those between two nodes."""
        for pair, link in list(self._links.items()):
            if a is not None and set(pair) != {a, b}:
                continue
            link.slow_s = link.loss = 0.0
            link.echoes = None
            if link.blocked is not None:
                self._unblock(pair, link)

    def _unblock(self, pair: tuple[str, str], link: Link) -> None:
        link.blocked = None
        late_s = self._rng.uniform(0, LATE_S_MAX)
        released_s = self._now() + late_s
        held = list(link.held)
        link.held.clear()
        for end, pipe, send in held:
            end.last_arrival_s = max(end.last_arrival_s, released_s)
            if pipe is not None:
                pipe.last_arrival_s = max(pipe.last_arrival_s, released_s)
            send()
        for end in self._all_ends():
            if (end.node.name, end.peer.node.name) == pair and end.has_lost:
                self._later(late_s, end, "Connection reset by peer")
                self._later(late_s, end.peer, "Connection reset by peer")

    def _give_up(self, link: Link, blocks: int, end: End) -> None:
        """Keepalive gives up if the same partition still stands."""
        if link.blocked is not None and link.blocks == blocks:
            self._later(0, end, "keepalive watchdog timeout")
            self._later(0, end.peer, "keepalive watchdog timeout")

    def connections(self, name: str) -> int:
        """The number of its connections, as client and as server."""
        return len(self._nodes[name].ends)

    def _end_life(self, node: NodeNetwork) -> list[End]:
        node.alive = False
        node.listeners.clear()
        ends = list(node.ends.values())
        node.ends.clear()
        for end in ends:
            end.is_open = False
            end.calls.clear()
        return ends

    def _all_ends(self) -> list[End]:
        return [end for node in self._nodes.values() for end in node.ends.values()]

    def _later(self, delay_s: float, end: End, why: str) -> None:
        self._post(delay_s, end.node.owner, end.break_down, why)

    # Messages

    def transmit(self, pipe: Pipe, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Sends a frame of a call, in the order of its pipe."""
        source, target = pipe.source, pipe.source.peer
        if not source.is_open or pipe.is_lost:
            return
        if not target.is_open and target.node.name not in self._dark:
            self.hang_up(target, "Connection reset by peer")
            return
        link = pipe.link
        if link is None:
            link = pipe.link = self._link(source.node.name, target.node.name)
        if link.blocked is Blocked.HOLD:
            pipe.stuck_until_s = math.inf
            link.held.append((source, pipe, lambda: self.transmit(pipe, deliver, args)))
        elif link.blocked is Blocked.DROP or not target.is_open:
            pipe.is_lost = source.has_lost = True
        else:
            now_s = self._now()
            arrival_s = now_s + self._latency_s(link)
            if arrival_s < pipe.last_arrival_s:
                arrival_s = pipe.last_arrival_s
            pipe.last_arrival_s = arrival_s
            pipe.stuck_until_s = arrival_s if arrival_s - now_s > STUCK_S else 0.0
            if arrival_s > source.last_arrival_s:
                source.last_arrival_s = arrival_s
            pipe.put(deliver, args)
            self._deliver(arrival_s - now_s, target.node.owner, pipe.arrive)

    def give_up(self, pipe: Pipe) -> None:
        """Marks the stream as given up by its client. Stuck messages come all the same, perhaps
        after those of a newer stream over another connection.
        """
        if self._now() < pipe.stuck_until_s and self._rng.random() < GIVEN_UP_LATE:
            pipe.late_s = self._rng.uniform(0, GIVEN_UP_LATE_S_MAX)
            self.late_streams += 1

    def hang_up(self, end: End, why: str, *, in_order: bool = False) -> None:
        """Tells the other side that this end is closed, after everything that was sent if
        `in_order`.
        """
        link = self._link(end.node.name, end.peer.node.name)
        if link.blocked is Blocked.HOLD:
            link.held.append((end, None, lambda: self.hang_up(end, why, in_order=True)))
        elif link.blocked is Blocked.DROP:
            self._later(self._rng.uniform(*KEEPALIVE_S), end.peer, "keepalive watchdog timeout")
        else:
            delay_s = self._latency_s(link)
            if in_order:
                delay_s = max(delay_s, end.last_arrival_s - self._now())
            self._later(delay_s, end.peer, why)

    def say_going_away(self, end: End) -> None:
        link = self._link(end.node.name, end.peer.node.name)
        if link.blocked is None:
            self._post(self._latency_s(link), end.peer.node.owner, end.peer.go_away)

    def knock(
        self,
        client: NodeNetwork,
        host: str,
        port: int,
        arrived: Callable[[Acceptor], None] | None,
        answer: Callable[[Probe], None],
    ) -> None:
        """Sends a SYN. `arrived` runs at the server's process, `answer` at the client with its
        kernel's result. Without `arrived` a listening port answers by itself. Silence calls
        neither.
        """
        name = client.name if host in OWN_HOSTS else host
        there = self._link(client.name, name)

        def at_target() -> None:
            node = self._nodes.get(name)
            if name in self._dark or node is None:
                return
            server = node.listeners.get(port)
            back = self._link(name, client.name)
            if server is not None and arrived is not None:
                self._post(0, node.owner, arrived, server)
            elif back.blocked is None:
                found = Probe.REFUSED if server is None else Probe.ANSWERED
                self._post(self._latency_s(back), client.owner, answer, found)

        if there.blocked is None:
            self._post(self._latency_s(there), None, at_target)

    def accept(
        self, client: NodeNetwork, server: NodeNetwork, opened: Callable[[End], None]
    ) -> End | None:
        """The server's process takes a connection; `opened` runs at the client with its end."""
        back = self._link(server.name, client.name)
        if back.blocked is not None or not client.alive:
            return None
        near, far = connect(client, server)
        self._post(self._latency_s(back), client.owner, _opened, near, opened)
        return far

    def echoes_towards(self, end: End) -> Echoes | None:
        return self._link(end.peer.node.name, end.node.name).echoes

    def later(self, delay_s: float, owner: Any, callback: Callable[..., Any], *args: Any) -> None:
        self._post(delay_s, owner, callback, *args)

    def chance(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)

    def next_port(self) -> int:
        return next(self._ports)

    def _link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def _latency_s(self, link: Link) -> float:
        rng = self._rng
        latency_s = LATENCY_S + SPREAD_S * rng.random() + link.slow_s
        if rng.random() < TAIL:
            latency_s += rng.uniform(0, TAIL_S)
        if link.loss > 0:
            for n in range(RETRANSMISSIONS_MAX):
                if rng.random() >= link.loss:
                    break
                latency_s += RETRANSMISSION_S * 2**n
        return latency_s


def _opened(near: End, opened: Callable[[End], None]) -> None:
    if near.is_open:
        opened(near)


class NodeNetwork:
    """`Runtime.network` of one life of one node."""

    def __init__(self, network: SimNetwork, name: str, owner: Any) -> None:
        self.network = network
        self.name = name
        self.owner = owner
        self.alive = True
        self.listeners: dict[int, Acceptor] = {}
        self.ends: dict[int, End] = {}

    async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
        found: asyncio.Future[Probe] = asyncio.get_running_loop().create_future()

        def answer(verdict: Probe) -> None:
            if not found.done():
                found.set_result(verdict)

        self.network.knock(self, host, port, None, answer)
        try:
            async with asyncio.timeout(timeout_s):
                return await found
        except TimeoutError:
            return Probe.SILENT

    async def resolves(self, host: str) -> bool:
        return True  # a machine has its name before its process lives

    def channel(self, target: str, client_id: str | None = None) -> grpc.aio.Channel:
        return cast("grpc.aio.Channel", SimChannel(self, target, client_id))

    def server(self, connections_max: int = CONNECTIONS_MAX) -> grpc.aio.Server:
        return cast("grpc.aio.Server", SimServer(self))

    async def listen(
        self, host: str, port: int, accept: Callable[[ByteStream], None]
    ) -> SimListener:
        listener = SimListener(self, accept)
        try:
            listener.port = self.bind(f"{host}:{port}", listener)
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, str(error)) from error
        await asyncio.sleep(0)
        return listener

    async def connect(self, host: str, port: int) -> SimByteStream:
        return await open_stream(self, host, port)

    def bind(self, address: str, acceptor: Acceptor) -> int:
        """Binds the address and returns the port; raises RuntimeError as grpc does."""
        host, _, text = address.rpartition(":")
        port = int(text)
        if (host not in OWN_HOSTS and host != self.name) or port in self.listeners:
            raise RuntimeError(f"Failed to bind to address {address}")
        if port == 0:
            port = self.network.next_port()
        self.listeners[port] = acceptor
        return port
