"""I-60: a producer is forgotten only when it has sent nothing for `producer.id.expiration.ms`, by
when its batches were seen in the log; where the log is cut or loaded anew, counting begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline_broker.hosts.partition import Partition
    from strandline_proof.sim.node import Node

CLOCK: Final = 1.25
"""So much faster than time a server's clock may run."""
LAST_OFFSET: Final = 3


class ExpiryOracle:
    def __init__(self, expiry_ms: int, now: Callable[[], float], sometimes: Counter[str]) -> None:
        self._expiry_s = expiry_ms / 1000
        self._now = now
        self._sometimes = sometimes
        self._known: dict[tuple[str, int, object], tuple[int, dict[int, tuple[int, float]]]] = {}
        """By node, its life and partition: the log's end, and of each producer its last offset and
        when that was seen.
        """

    def on_step(self, node: Node, key: object, partition: Partition) -> None:
        log = partition.log
        place = node.name, node.incarnation, key
        end, before = self._known.get(place, (-1, {}))
        now, known = self._now(), dict[int, tuple[int, float]]()
        for producer in partition.producers.entries():
            seen = before.get(producer[0])
            if seen is None or seen[0] != producer[LAST_OFFSET]:
                seen = producer[LAST_OFFSET], now
            known[producer[0]] = seen
        self._known[place] = log.log_end_offset, known
        if log.log_end_offset < end or partition.gate.locked():
            return
        for producer_id, (_, since) in before.items():
            if producer_id in known:
                continue
            self._sometimes["producer forgotten"] += 1
            if (now - since) * CLOCK < self._expiry_s:
                raise Violation(
                    "I-60",
                    f"{node.name} {partition.name}: producer {producer_id} is forgotten"
                    f" {now - since:.3f} s after its last batch",
                )
