"""I-60: a producer is forgotten only after `producer.id.expiration.ms` without a batch.

The time counts from the moment at which the producer's last batch was first seen in that replica's
log. A start does not restart it, so a server may use the times at which its files were written, by
its wall clock. If the log is truncated or loaded again, a known producer may be forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node

CLOCK: Final = 1.25
"""The greatest rate of a server's clock."""
LAST_OFFSET: Final = 3


@dataclass(slots=True)
class _Known:
    """Known producers of one replica, over all lives of its process."""

    life: int = -1
    end: int = -1
    states: object = None
    """The process's producer states; another object if it has read the log again."""
    is_cut: bool = False
    """True if the log was truncated: until the gate is free again, the states are the old ones."""
    last: dict[int, int] = field(default_factory=dict)
    """The last offset of each known producer."""
    since: dict[tuple[int, int], float] = field(default_factory=dict)
    """The time at which the batch of that producer that ends there was first seen."""
    least_s: float = math.inf
    """The least lead of its wall clock."""

    def look(self, node: Node, partition: Partition, now: float) -> dict[int, int]:
        """Producers forgotten since the last look, with the last offset, if nothing else can have
        removed them.
        """
        end = partition.log.log_end_offset
        if (
            end < self.end or 0 <= self.end < partition.log.log_start_offset
        ):  # or the log restarted behind
            self.is_cut = True
            self.since = {batch: at for batch, at in self.since.items() if batch[1] < end}
        if self.life == node.incarnation and self.states is not partition.producers:
            self.is_cut = True
        self.states = partition.producers
        before, is_new_life = self.last, self.life != node.incarnation
        self.last = {p[0]: p[LAST_OFFSET] for p in partition.producers.entries()}
        self.end, self.life = end, node.incarnation
        for batch in self.last.items():
            if batch[1] < end:
                self.since.setdefault(batch, now)
        self.least_s = min(self.least_s, node.wall_offset_s)
        ahead_s = max(node.ahead_s, node.most_ahead_s)
        if is_new_life:
            self._load(ahead_s)
        if partition.gate.locked():
            return {}
        was_cut, self.is_cut = self.is_cut, False
        if was_cut:
            self._load(ahead_s)
        if was_cut or is_new_life:
            return {}
        return {p: at for p, at in before.items() if p not in self.last and (p, at) in self.since}

    def _load(self, ahead_s: float) -> None:
        """The states were read from the disk, by a clock with that lead: files may seem older than
        they are.
        """
        older_s = max(0.0, ahead_s - self.least_s)
        for batch in self.last.items():
            if batch in self.since:
                self.since[batch] -= older_s


class ExpiryOracle:
    def __init__(self, expiry_ms: int, now: Callable[[], float], sometimes: Counter[str]) -> None:
        self._expiry_s = expiry_ms / 1000
        self._now = now
        self._sometimes = sometimes
        self._known: dict[tuple[str, object], _Known] = {}
        """States by node and partition."""

    def on_copied(self, of: str, to: str) -> None:
        """The directory of one machine, with the times of its files, is copied to another."""
        for (name, key), known in list(self._known.items()):
            if name == of:
                last, since = dict(known.last), dict(known.since)
                self._known[to, key] = replace(known, life=-1, last=last, since=since)

    def on_step(self, node: Node, key: object, partition: Partition) -> None:
        known = self._known.get((node.name, key))
        if known is None:
            known = self._known[node.name, key] = _Known()
        now = self._now()
        for producer_id, offset in known.look(node, partition, now).items():
            since = known.since[producer_id, offset]
            self._sometimes["producer forgotten"] += 1
            if (now - since) * CLOCK < self._expiry_s:
                raise Violation(
                    "I-60",
                    f"{node.name} {partition.name}: producer {producer_id} is forgotten"
                    f" {now - since:.3f} s after its last batch",
                )
