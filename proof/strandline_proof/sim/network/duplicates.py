"""Requests that arrive twice.

TCP gives a server no byte twice. What does is a client that asks again because it has not had its
answer: the server may have carried out the first request all the same. `Echoes`, at one direction
between two nodes, does that to calls: the first request of a call arrives a second time, in a call
of its own that nobody waits for. Which of the two is answered is the difference:

* a unary call is carried out, its answer is lost, and the client's own request comes later, as its
  second try;
* a request in `LATE`, or the first one of a stream, is answered, and what a broken connection has
  left of it is read only then: connections are not read in the order in which they were opened.

And what makes a client ask again: an answer that a reset takes when all is done (`lost_answers`).

A registration is never late: a process that is dead is told from one that lives by who came last.
One that came after its successor's would end that one, which its supervisor starts again.
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
    """Of the calls of one direction: how many arrive twice, how far apart, and who counts them."""

    probability: float
    late_s: float
    on_echo: Callable[[], None]


class EchoCall:
    """The client's side of a call that nobody waits for: every answer is lost."""

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
    """What a network does for calls that may arrive twice."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self.counts: Counter[str] = Counter()
        """How often a request of each method has arrived twice."""
        self.lost_answers: list[Callable[[str, str], bool]] = []
        """Each is asked at each answer of a server, by node and method, whether it is lost."""

    def loses_answer(self, end: End, method: str) -> bool:
        """Whether the connection is reset right before an answer goes from this end of it."""
        name = method.rpartition("/")[2]
        if not any(is_lost(end.node.name, name) for is_lost in tuple(self.lost_answers)):
            return False
        for each in (end, end.peer):
            self._network.later(0, each.node.owner, each.break_down, "Connection reset by peer")
        return True

    def delay_of(self, call: ClientCall, end: End, metadata: Metadata, request: bytes) -> float:
        """A call whose whole request is `request` arrives at `end`: after how long its own is to
        be carried out, as it was carried out before, or will be again.
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
        """At the server. What is left of a connection that its kernel knows to be gone is gone."""
        if not end.is_open or end.accept_call is None:
            return
        self.counts[method.rpartition("/")[2]] += 1
        echoes.on_echo()
        call: Any = EchoCall(self._network, method)
        there = end.accept_call(call, metadata, None)
        there.on_message(request)
        there.on_half_close()
