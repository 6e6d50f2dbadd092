"""The assignor `range`: of every topic each subscriber gets one range of partitions.

The first members get one more where the division leaves a rest. Topics with the same subscribers
and the same number of partitions are divided alike, so their partitions can be joined.
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
        subscribers: dict[TopicId, list[str]] = {}
        for member_id in ordered:
            for topic_id in spec.members[member_id].topics:
                subscribers.setdefault(topic_id, []).append(member_id)
        assignment: dict[str, dict[TopicId, tuple[int, ...]]] = {name: {} for name in ordered}
        for topic_id in sorted(spec.partitions):
            members = subscribers.get(topic_id, [])
            count = spec.partitions[topic_id]
            for index, member_id in enumerate(members):
                quotient, rest = divmod(count, len(members))
                first = index * quotient + min(index, rest)
                size = quotient + (index < rest)
                if size > 0:
                    assignment[member_id][topic_id] = tuple(range(first, first + size))
        return assignment
