"""The assignor `range`: each subscriber of a topic gets one range of its partitions.

If the division leaves a rest, the first members get one more. Topics with the same subscribers and
the same number of partitions are divided alike, so their partitions can be joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.assignors import sort_key

if TYPE_CHECKING:
    from strandline_broker.core.groups.assignors import GroupAssignment, GroupSpec
    from strandline_proto.ids import TopicId


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        ordered = sorted(spec.members, key=lambda name: sort_key(name, spec.members[name]))
        assignment: dict[str, dict[TopicId, tuple[int, ...]]] = {name: {} for name in ordered}
        subscribers = _subscribers(spec, ordered)
        for topic_id in sorted(subscribers):
            members, count = subscribers[topic_id], spec.partitions[topic_id]
            quotient, rest = divmod(count, len(members))
            for index, rank in enumerate(members[:count]):
                first = index * quotient + min(index, rest)
                after = first + quotient + (index < rest)
                assignment[ordered[rank]][topic_id] = tuple(range(first, after))
        return assignment


def _subscribers(spec: GroupSpec, ordered: list[str]) -> dict[TopicId, list[int]]:
    """The subscribers of each existing topic, as places in the order of members."""
    by_subscription: dict[frozenset[TopicId], list[int]] = {}
    for rank, name in enumerate(ordered):
        by_subscription.setdefault(spec.members[name].topics, []).append(rank)
    found: dict[TopicId, list[list[int]]] = {}
    for topics, ranks in by_subscription.items():
        for topic_id in topics & spec.partitions.keys():
            found.setdefault(topic_id, []).append(ranks)
    return {
        topic_id: lists[0] if len(lists) == 1 else sorted(rank for ranks in lists for rank in ranks)
        for topic_id, lists in found.items()
    }
