"""The topics that a group's members subscribe to, by name or by a regular expression."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from strandline_broker.core.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.metadata_cache import MetadataView


class Matcher(Protocol):
    """The engine for regular expressions; its time is linear in its input."""

    def check(self, regex: str) -> None:
        """Raise InvalidRegularExpression if the expression does not compile."""

    def matching(self, regex: str, names: Iterable[str]) -> tuple[str, ...]:
        """The names that the expression matches whole, in the given order."""


def names_to_match(metadata: MetadataView) -> list[str]:
    """The names that a regular expression may match: all topics but the internal ones, sorted."""
    return sorted(name for name in metadata.ids_by_name if name not in INTERNAL_TOPICS)


def metadata_hash(names: Iterable[str], metadata: MetadataView) -> int:
    """One number for the subscribed topics' state, signed, of 64 bits: if it changes, a new target
    is needed. Kafka's own number differs, and each system treats the other's as a change.
    """
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        topic = metadata.topic_named(name)
        if topic is not None:
            digest.update(topic.topic_id + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def resolve(
    draft: Draft, matcher: Matcher, metadata: MetadataView, wall_ms: int, *, again: bool
) -> bool:
    """Find the topics of the members' regular expressions; with `again` also those of known ones.
    Returns True if the topics of any expression have changed.
    """
    changed = False
    for regex in sorted(draft.subscribed_regexes()):
        known = draft.regexes.get(regex)
        if known is not None and not again:
            continue
        topics = matcher.matching(regex, names_to_match(metadata))
        if known is None or known.topics != topics:
            changed = True
            draft.write(
                ConsumerGroupRegularExpressionKey(draft.group_id, regex),
                ConsumerGroupRegularExpressionValue(topics, metadata.metadata_offset, wall_ms),
            )
    return changed


def forget_unused_regexes(draft: Draft) -> None:
    for regex in sorted(set(draft.regexes) - draft.subscribed_regexes()):
        draft.write(ConsumerGroupRegularExpressionKey(draft.group_id, regex), None)
