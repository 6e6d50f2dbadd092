"""Bounds on the elements of one request.

A coordinator decides a request about one group in one step, without a turn for other calls. A
hundred thousand partitions would take it seconds. A request about several groups is answered with
turns, and may name more of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka.wire import MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

IN_ONE_STEP_MAX: Final = 10_000
"""Limit of topics, of partitions with offsets, of protocols and of leaving members."""
LISTED_MAX: Final = 100_000
"""Limit of groups, of the partitions that a member owns, and of assignments."""


def check_count(count: int, noun: str, most: int = IN_ONE_STEP_MAX) -> None:
    """Raises MalformedRequest, which ends the connection, if the request names too many."""
    if count > most:
        raise MalformedRequest(f"one request names {count} {noun}; at most {most} are allowed")


def check_topics(topics: Collection[Any], partitions_of: Iterable[Collection[Any]]) -> None:
    check_count(len(topics), "topics")
    check_count(sum(map(len, partitions_of)), "partitions")
