"""The payloads of consumers, the one protocol type whose metadata the coordinator reads.

The coordinator only shows them, and looks up the topics that a group reads. A payload that does not
parse means nothing wrong: the members of a group agree on its form among themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.wire import MalformedRecord, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSUMER_PROTOCOL: Final = "consumer"


def subscribed_names(subscription: bytes) -> frozenset[str] | None:
    """The topics of a ConsumerProtocolSubscription; None: it does not parse. Every version begins
    with them.
    """
    reader = Reader(subscription)
    try:
        reader.i16()
        return frozenset(reader.array(reader.string))
    except MalformedRecord:
        return None


def assigned_partitions(assignment: bytes) -> Mapping[str, tuple[int, ...]] | None:
    """The partitions of a ConsumerProtocolAssignment by topic name; None: it does not parse. Every
    version begins with them.
    """
    reader = Reader(assignment)

    def topic() -> tuple[str, tuple[int, ...]]:
        return reader.string(), tuple(reader.array(reader.i32))

    try:
        reader.i16()
        found = reader.array(topic)
    except MalformedRecord:
        return None
    partitions: dict[str, set[int]] = {}
    for name, indexes in found:
        partitions.setdefault(name, set()).update(indexes)
    return {name: tuple(sorted(indexes)) for name, indexes in sorted(partitions.items())}
