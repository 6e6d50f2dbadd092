"""Which topics a group's members subscribe to, by name or by a regular expression."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.coordination.consumer_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from strandline_broker.core.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.metadata_cache import MetadataView


class Matcher(Protocol):
    """The engine for regular expressions; it takes time linear in its input."""

    def check(self, regex: str) -> None:
        """Raises InvalidRegularExpression if it does not compile."""

    def matching(self, regex: str, names: Iterable[str]) -> tuple[str, ...]:
        """Those names that the expression matches whole, in the order given."""


def names_to_match(metadata: MetadataView) -> list[str]:
    """What a regular expression may match: every topic's name but the internal ones, sorted."""
    return sorted(name for name in metadata.ids_by_name if name not in INTERNAL_TOPICS)


def metadata_hash(names: Iterable[str], metadata: MetadataView) -> int:
    """One number for what the subscribed topics are: changes of them make another target. Signed,
    of 64 bits; Kafka's own differs, and each takes the other's for a change.
    """
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        topic = metadata.topic_named(name)
        if topic is not None:
            digest.update(topic.topic_id + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def resolve(
    draft: Draft, matcher: Matcher, metadata: MetadataView, wall_ms: int, *, anew: bool
) -> bool:
    """Find the topics of the members' regular expressions, of those that are known already too if
    `anew`; whether any has other topics than it had.
    """
    changed = False
    for regex in sorted(draft.subscribed_regexes()):
        known = draft.regexes.get(regex)
        if known is not None and not anew:
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
