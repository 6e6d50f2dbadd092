"""I-25: the times at which each follower was caught up, from the fetches that its leader has read
and answered.

A request is answered after it was looked at, and answers come in order. So a follower was caught up
at a request in two cases: its position was still the end of the leader's log when the request was
answered, or its next position was the end of the log at the request. Requests without a position
continue with the last one. A refused position counts for nothing (I-39), and so does one that was
not surely looked at: an answer may have no room for it, or be older than the leadership. A later
answer shows then what became of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_proto import hot_decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.decided import Key
    from strandline_proto import hot_messages as hot

METHOD: Final = "Fetch"
Ends = list[tuple[float, int]]
"""Ends of a leader's log, and the time of each, by its own clock."""
NEVER: Final = float("-inf")


@dataclass(slots=True)
class Exchange:
    """One request, and its answer."""

    read_s: float
    request: hot.FetchRequest
    answered_s: float | None = None
    answer: Any = b""


class Heard:
    """One fetch stream, as its server reads and answers it."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.exchanges: list[Exchange] = []
        self._answered = 0

    @property
    def follower(self) -> tuple[int, int]:
        """(id, epoch); -1 for a consumer, or before the first request."""
        state = self.exchanges[0].request.replica_state if self.exchanges else None
        return (-1, -1) if state is None else (state.replica_id, state.replica_epoch)

    def on_read(self, message: hot.FetchRequest) -> None:
        state = message.replica_state
        if state is not None and state.replica_id >= 0:
            self.exchanges.append(Exchange(self._now_s(), message))

    def on_said(self, message: Any) -> None:
        if self._answered < len(self.exchanges):
            exchange = self.exchanges[self._answered]
            exchange.answered_s, exchange.answer = self._now_s(), message
            self._answered += 1


class Caught(NamedTuple):
    at_s: float = NEVER
    """The time at which it was caught up last, by the leader's clock."""
    position: int = -1
    """The log end that it reported last."""
    heard_s: float = NEVER
    """The time of that report."""


_HEARD: Final = attrgetter("heard_s")


class FetchOracle:
    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._heard: dict[tuple[str, int], list[Heard]] = {}
        """The streams to each life of each node."""

    def overhear(self, name: str) -> Heard:
        """A stream to that node begins."""
        node = self._nodes[name]
        heard = Heard(partial(clock_s, node))
        self._heard.setdefault((name, node.incarnation), []).append(heard)
        return heard

    def caught_up(
        self, node: Node, key: Key, leader_epoch: int, follower: tuple[int, int], ends: Ends
    ) -> Caught:
        """The follower's last caught-up time, as far as the leading `node` can know it, by id and
        epoch. `ends`: the leader's log ends, from the beginning of its epoch on.
        """
        best = Caught()
        for heard in self._heard.get((node.name, node.incarnation), ()):
            if heard.follower == follower:
                found = _in_stream(key, leader_epoch, heard.exchanges, ends)
                last = max(best, found, key=_HEARD)
                best = last._replace(at_s=max(best.at_s, found.at_s))
        return best


def clock_s(node: Node) -> float:
    """The node's monotonic clock."""
    assert node.owner is not None
    return node.owner.local(node.loop.now)


def _in_stream(key: Key, leader_epoch: int, exchanges: Sequence[Exchange], ends: Ends) -> Caught:
    at_s, position, heard_s = NEVER, -1, NEVER
    before: tuple[float, float] | None = (
        None  # when the last position's request was read, and answered
    )
    for exchange, is_first, offset in _looked_at(key, leader_epoch, exchanges, ends[0][0]):
        assert exchange.answered_s is not None
        if exchange.read_s < ends[0][0]:
            continue
        position, heard_s = offset, exchange.read_s
        if offset >= _end(ends, exchange.answered_s):
            at_s = exchange.read_s
        elif is_first and before is not None and offset >= _end(ends, before[1]):
            at_s = max(at_s, before[0])
        if is_first:
            before = exchange.read_s, exchange.answered_s
    return Caught(at_s, position, heard_s)


def _end(ends: Ends, at_s: float) -> int:
    return ends[bisect_right(ends, at_s, key=lambda end: end[0]) - 1][1]


def _looked_at(
    key: Key, leader_epoch: int, exchanges: Sequence[Exchange], began_s: float
) -> Iterator[tuple[Exchange, bool, int]]:
    """Each answered request whose position was taken up, with whether it is the first one with that
    position, and with that position.
    """
    offset: int | None = None
    is_taken = False
    for exchange in exchanges:
        if exchange.answered_s is None:
            return
        request = exchange.request
        if key in request.forgotten:
            offset = None
        named = next((p for p in request.partitions if (p.topic_id, p.partition) == key), None)
        if named is not None:
            fits = named.current_leader_epoch == leader_epoch
            offset, is_taken = named.fetch_offset if fits else None, False
        is_first = not is_taken
        if offset is not None and is_first:
            took = _took(key, exchange, began_s)
            is_taken = took is True
            offset = None if took is False else offset
        if offset is not None and is_taken:
            yield exchange, is_first, offset


def _took(key: Key, exchange: Exchange, began_s: float) -> bool | None:
    """Returns whether an answer shows that the position was taken up; None: it shows neither."""
    response = hot_decode.fetch_response(bytes(exchange.answer))
    if response.error_code != 0:
        return False
    for result in response.partitions:
        if (result.topic_id, result.partition) == key:
            return result.error_code == 0 and result.diverging_epoch is None
    is_full = any(len(result.records) for result in response.partitions)
    return None if is_full or exchange.read_s < began_s else True
