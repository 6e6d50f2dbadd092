"""The assignor `uniform`: loads differ as little as subscriptions allow, and few partitions move.

There are three steps:

1. A member keeps the partitions that it has and may have.
2. A partition without an owner goes to the subscriber with the fewest.
3. Partitions of each topic move from the most loaded owner to the least loaded subscriber, while
   that evens them out.

Members with equal subscriptions then differ by one at most. If all subscriptions are equal, no
equally even assignment moves fewer partitions (I-140).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

from strandline_broker.core.groups.assignors import sort_key

if TYPE_CHECKING:
    from strandline_broker.core.groups.assignors import GroupAssignment, GroupSpec
    from strandline_proto.ids import TopicId

Rank: TypeAlias = int
"""A member's place in the order of members."""
NOBODY: Rank = -1


class UniformAssignor:
    name = "uniform"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        division = _Division(spec)
        division.keep()
        division.give_what_is_free()
        division.even_out()
        return division.assignment()


class _Division:
    """The owners of all partitions, during the computation."""

    def __init__(self, spec: GroupSpec) -> None:
        self._names = sorted(spec.members, key=lambda name: sort_key(name, spec.members[name]))
        self._members = [spec.members[name] for name in self._names]
        self._loads = [0] * len(self._members)
        self._owners: dict[TopicId, list[Rank]] = {}
        self._heaps: dict[TopicId, list[_Heap]] = {}
        by_subscription: dict[frozenset[TopicId], _Heap] = {}
        self._heap_of: list[_Heap] = []
        for rank, member in enumerate(self._members):
            heap = by_subscription.setdefault(member.topics, [])
            heap.append((0, rank))
            self._heap_of.append(heap)
        subscribers: dict[TopicId, int] = {}
        for topics, heap in by_subscription.items():
            for topic in topics & spec.partitions.keys():
                self._heaps.setdefault(topic, []).append(heap)
                subscribers[topic] = subscribers.get(topic, 0) + len(heap)
        # Topics with few subscribers come first: the others have more ways to compensate for them.
        for topic in sorted(subscribers, key=lambda topic: (subscribers[topic], topic)):
            self._owners[topic] = [NOBODY] * spec.partitions[topic]

    def keep(self) -> None:
        for rank, member in enumerate(self._members):
            for topic, partitions in member.assigned.items():
                if topic not in member.topics or topic not in self._owners:
                    continue
                owners = self._owners[topic]
                for partition in partitions:
                    if partition < len(owners) and owners[partition] == NOBODY:
                        owners[partition] = rank
                        self._loads[rank] += 1
        for rank, load in enumerate(self._loads):
            if load:
                heappush(self._heap_of[rank], (load, rank))

    def give_what_is_free(self) -> None:
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner == NOBODY:
                    owners[partition] = rank = self._least_loaded(topic)
                    self._add(rank, 1)

    def even_out(self) -> None:
        """Move partitions until the loads are even. Members with more than an even share give
        first, so that no other member gives needlessly.

        Every move lowers the sum of the squares of the loads, so this ends.
        """
        total, members = sum(self._loads), max(len(self._loads), 1)
        for enough in (-(-total // members), 0):
            moved = True
            while moved:
                moved = False
                for topic in self._owners:
                    moved |= self._even_out(topic, enough)

    def _even_out(self, topic: TopicId, enough: int) -> bool:
        """Move partitions of one topic from owners with more than `enough`, the fullest first."""
        owners, loads = self._owners[topic], self._loads
        highest = max((loads[rank] for rank in owners), default=0)
        if highest <= enough or highest <= loads[self._least_loaded(topic)] + 1:
            return False
        owned: dict[Rank, list[int]] = {}
        for partition, rank in enumerate(owners):
            owned.setdefault(rank, []).append(partition)
        for rank, partitions in owned.items():
            # The last one moves first: partitions that the member did not have before are at the
            # end.
            had = frozenset(self._members[rank].assigned.get(topic, ()))
            owned[rank] = [p for p in partitions if p in had] + [
                p for p in partitions if p not in had
            ]
        givers = [(-loads[rank], rank) for rank in owned]
        heapify(givers)
        while givers:
            load, giver = givers[0]
            taker = self._least_loaded(topic)
            if -load <= max(loads[taker] + 1, enough):
                break
            owners[owned[giver].pop()] = taker
            self._add(giver, -1)
            self._add(taker, 1)
            heappop(givers)
            if owned[giver]:
                heappush(givers, (load + 1, giver))
        return True

    def assignment(self) -> GroupAssignment:
        owned: list[dict[TopicId, list[int]]] = [{} for _ in self._members]
        for topic in sorted(self._owners):
            for partition, rank in enumerate(self._owners[topic]):
                owned[rank].setdefault(topic, []).append(partition)
        return {
            name: {topic: tuple(partitions) for topic, partitions in owned[rank].items()}
            for rank, name in enumerate(self._names)
        }

    def _add(self, rank: Rank, change: int) -> None:
        self._loads[rank] += change
        heappush(self._heap_of[rank], (self._loads[rank], rank))

    def _least_loaded(self, topic: TopicId) -> Rank:
        return min(self._top(heap) for heap in self._heaps[topic])[1]

    def _top(self, heap: _Heap) -> tuple[int, Rank]:
        """The least loaded member of one subscription; entries with outdated loads are dropped."""
        while heap[0][0] != self._loads[heap[0][1]]:
            heappop(heap)
        return heap[0]


_Heap: TypeAlias = "list[tuple[int, Rank]]"
"""(load, rank) of the members of one subscription: the newest entry of each, and older ones."""
