"""The choice of brokers for the replicas of new partitions: racks apart, leaders and their
successors spread.

The preferred leader is the broker that leads the fewest partitions of the topic, then of the
cluster. Topics of one partition each are therefore not all led by the same broker. The second
replica is elected first when the leader dies (I-48). The partitions of one leader therefore have
their second replicas on all other brokers alike: leaderships of a dead broker spread out. If racks
permit:

- Preferred leaders of a topic, and of the cluster, differ by one at most between brokers.
- The second replicas of one leader's partitions do so too.
- A broker holds at most three replicas more or fewer than the average.
- Replicas of a partition are on different racks, or spread evenly over the existing ones.

The result depends on the arguments only.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strandline_proto.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Candidate:
    broker_id: BrokerId
    rack: str
    """The broker's rack; empty: no other broker shares its failures."""


def alternate_racks(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The brokers in an order in which neighbours are on different racks, as far as possible."""
    racks: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: c.broker_id):
        rack = f"rack {candidate.rack}" if candidate.rack else f"broker {candidate.broker_id:010}"
        racks.setdefault(rack, []).append(candidate)
    lines = [racks[name] for name in sorted(racks)]
    longest = max((len(line) for line in lines), default=0)
    return [line[i] for i in range(longest) for line in lines if i < len(line)]


@dataclass(slots=True)
class Load:
    """Number of partitions that each broker leads, by preference, and holds; and their second
    replicas.
    """

    leading: Counter[BrokerId] = field(default_factory=Counter)
    holding: Counter[BrokerId] = field(default_factory=Counter)
    second: Counter[BrokerId] = field(default_factory=Counter)
    heirs: Counter[tuple[BrokerId, BrokerId]] = field(default_factory=Counter)
    """Number of partitions for each pair of leader and second replica."""

    def add(self, replicas: Sequence[BrokerId]) -> None:
        self.leading[replicas[0]] += 1
        self.holding.update(replicas)
        if len(replicas) > 1:
            self.second[replicas[1]] += 1
            self.heirs[replicas[0], replicas[1]] += 1

    def remove(self, replicas: Sequence[BrokerId]) -> None:
        """Remove a partition that was added."""
        self.leading[replicas[0]] -= 1
        self.holding.subtract(replicas)
        if len(replicas) > 1:
            self.second[replicas[1]] -= 1
            self.heirs[replicas[0], replicas[1]] -= 1

    def copy(self) -> "Load":
        return Load(self.leading.copy(), self.holding.copy(), self.second.copy(), self.heirs.copy())


def load_of(assignments: Iterable[Sequence[BrokerId]]) -> Load:
    load = Load()
    for replicas in assignments:
        load.add(replicas)
    return load


def assign(
    candidates: Sequence[Candidate],
    *,
    partitions: int,
    replication_factor: int,
    cluster: Load,
    topic: Load | None = None,
) -> list[tuple[BrokerId, ...]]:
    """Replicas of each new partition, preferred leader first.

    `cluster` is the brokers' present load, the topic's own partitions included, and `topic` is the
    part of this topic. Both are updated.
    """
    ring = alternate_racks(candidates)
    assert 0 < replication_factor <= len(ring), (replication_factor, len(ring))
    spread = _Spread(ring, cluster, Load() if topic is None else topic)
    return [spread.next(replication_factor) for _ in range(partitions)]


class _Spread:
    """The spread of new replicas. If all else is equal, the leader is the first of the ring, and
    the others are the next after it.
    """

    def __init__(self, ring: Sequence[Candidate], cluster: Load, topic: Load) -> None:
        self._ring = [candidate.broker_id for candidate in ring]
        self._place = {broker_id: place for place, broker_id in enumerate(self._ring)}
        self._rack = {c.broker_id: c.rack or f"broker {c.broker_id}" for c in ring}
        self._cluster = cluster
        self._topic = topic

    def next(self, replication_factor: int) -> tuple[BrokerId, ...]:
        chosen = [self._leader()]
        racks = Counter(self._rack[b] for b in chosen)
        while len(chosen) < replication_factor:
            follower = self._follower(chosen, racks)
            chosen.append(follower)
            racks[self._rack[follower]] += 1
        self._cluster.add(chosen)
        self._topic.add(chosen)
        return tuple(chosen)

    def _leader(self) -> BrokerId:
        topic, cluster = self._topic, self._cluster
        return min(
            self._ring,
            key=lambda b: (topic.leading[b], cluster.leading[b], cluster.holding[b]),
        )

    def _follower(self, chosen: Sequence[BrokerId], racks: Counter[str]) -> BrokerId:
        topic, cluster, leader = self._topic, self._cluster, chosen[0]
        is_second = len(chosen) == 1

        def order(b: BrokerId) -> tuple[int, ...]:
            distance = (self._place[b] - self._place[leader]) % len(self._ring)
            if is_second:
                even = cluster.heirs[leader, b], cluster.second[b], cluster.holding[b]
                return racks[self._rack[b]], *even, distance
            return racks[self._rack[b]], topic.holding[b], cluster.holding[b], distance

        return min((b for b in self._ring if b not in chosen), key=order)
