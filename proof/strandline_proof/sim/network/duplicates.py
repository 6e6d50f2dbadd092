"""Requests that arrive twice.

TCP gives a server no byte twice. A client does: it retries a request without an answer, though the
server may have carried out the first one. `Echoes`, at one direction between two nodes, does that
to calls. The first request of a call arrives a second time, in a call of its own without a waiting
client. Which of the two is answered depends on the kind of call:

- a unary call is carried out, its answer is lost, and the client's own request comes later, as its
retry
- a request in `LATE`, or the first one of a stream, is answered at once; the rest of a broken
connection is read only then, as a server does not read connections in the order in which they were
opened

`lost_answers` makes a client retry: a reset takes the answer after the request is carried out.

A registration is never late: the latest registration tells a live process from a dead one. A late
registration of the dead process would end its successor, and a supervisor would restart that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.network.client_call import ClientCall, Metadata
    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.network import SimNetwork

LATE: Final = ("AlterPartition", "AllocateProducerIds")
"""Unary calls of which an old one may be read after a newer one."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """Doubled calls of one direction: how many there are, how far apart, and their counter."""

    probability: float
    late_s: float
    on_echo: Callable[[], None]


class EchoCall:
    """The client's side of a call without a waiting client: every answer is lost."""

    def __init__(self, network: SimNetwork, method: str) -> None:
        self.number = next(network.call_ids)
        self.method = method

    def on_headers(self, metadata: Any) -> None:
        pass

    def on_message(self, message: bytes) -> None:
        pass

    def on_end(self, headers: Any, message: Any, status: Any) -> None:
        pass

    def on_trailers(self, code: int, details: str, metadata: Any, *, drop: bool) -> None:
        pass


class Echoer:
    """The network's part in calls that may arrive twice."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self.counts: Counter[str] = Counter()
        """The number of requests of each method that have arrived twice."""
        self.lost_answers: list[Callable[[str, str], bool]] = []
        """Functions asked at each answer of a server, by node and method, whether it is lost."""

    def loses_answer(self, end: End, method: str) -> bool:
        """True if the connection is reset right before an answer leaves this end of it."""
        name = method.rpartition("/")[2]
        if not any(is_lost(end.node.name, name) for is_lost in tuple(self.lost_answers)):
            return False
        for each in (end, end.peer):
            self._network.later(0, each.node.owner, each.break_down, "Connection reset by peer")
        return True

    def delay_of(self, call: ClientCall, end: End, metadata: Metadata, request: bytes) -> float:
        """The delay until a call that arrives at `end` is carried out, as it was carried out
        before, or will be again. `request` is the whole request of the call.
        """
        echoes = self._drawn(end)
        if echoes is None:
            return 0.0
        if call.method.rpartition("/")[2] in LATE and self._network.chance(0, 1) < 0.5:
            self._later(echoes, call.method, end, metadata, request)
            return 0.0
        self._carry_out(echoes, call.method, end, metadata, request)
        return echoes.late_s

    def on_first(self, call: ClientCall, end: End, metadata: Metadata, request: bytes) -> None:
        """The first request of a stream arrives at `end`."""
        echoes = self._drawn(end)
        if echoes is not None:
            self._later(echoes, call.method, end, metadata, request)

    def _drawn(self, end: End) -> Echoes | None:
        echoes = self._network.echoes_towards(end)
        if echoes is None or self._network.chance(0, 1) >= echoes.probability:
            return None
        return echoes

    def _later(self, echoes: Echoes, method: str, end: End, *what: Any) -> None:
        self._network.later(
            echoes.late_s, end.node.owner, self._carry_out, echoes, method, end, *what
        )

    def _carry_out(
        self, echoes: Echoes, method: str, end: End, metadata: Metadata, request: bytes
    ) -> None:
        """Carries the request out at the server. A connection that the kernel knows to be gone has
        nothing left to read.
        """
        if not end.is_open or end.accept_call is None:
            return
        self.counts[method.rpartition("/")[2]] += 1
        echoes.on_echo()
        call: Any = EchoCall(self._network, method)
        there = end.accept_call(call, metadata, None)
        there.on_message(request)
        there.on_half_close()
