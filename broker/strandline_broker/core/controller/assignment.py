"""Which brokers hold the replicas of a new topic: round-robin, racks apart, leaders spread."""

from collections.abc import Sequence
from dataclasses import dataclass

from strandline_proto.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Candidate:
    broker_id: BrokerId
    rack: str
    """Empty: the broker shares its fate with no other."""


def alternate_racks(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The brokers in an order in which neighbours are on different racks, as far as that goes."""
    racks: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: c.broker_id):
        rack = f"rack {candidate.rack}" if candidate.rack else f"broker {candidate.broker_id:010}"
        racks.setdefault(rack, []).append(candidate)
    lines = [racks[name] for name in sorted(racks)]
    longest = max((len(line) for line in lines), default=0)
    return [line[i] for i in range(longest) for line in lines if i < len(line)]


def assign(
    candidates: Sequence[Candidate], *, partitions: int, replication_factor: int, start: int
) -> list[tuple[BrokerId, ...]]:
    """Replicas of each partition, preferred leader first.

    The preferred leader goes round the ring of brokers, from place `start`. The followers are those
    that come next, from a place that moves by one with each turn of the ring so that not the same
    two brokers always follow the same leader; a rack is used twice only when every rack is used.
    """
    ring = alternate_racks(candidates)
    assert 0 < replication_factor <= len(ring), (replication_factor, len(ring))
    return [_replicas(ring, start + index, replication_factor) for index in range(partitions)]


def _replicas(ring: Sequence[Candidate], turn: int, count: int) -> tuple[BrokerId, ...]:
    n = len(ring)
    leader = ring[turn % n]
    others = [ring[(turn + 1 + i) % n] for i in range(n - 1)]
    if others:
        shift = (turn // n) % len(others)
        others = others[shift:] + others[:shift]
    chosen = [leader]
    for pass_racks in (True, False):
        for candidate in others:
            if len(chosen) == count:
                break
            new_rack = candidate.rack == "" or candidate.rack not in {c.rack for c in chosen}
            if candidate not in chosen and (new_rack or not pass_racks):
                chosen.append(candidate)
    return tuple(c.broker_id for c in chosen)
