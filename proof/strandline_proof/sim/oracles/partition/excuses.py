"""The end of a permitted loss, and the records that have survived it (I-54).

The loss is over once the newest leader has committed everything that it began with, its whole ISR
with the minimum is there, and each member holds the committed records. Earlier losses explain no
missing record from then on: a new ghost starts from that log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.controller.log.records import RECOVERED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline_broker.core.replication.leader import Leader
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.partition.committed import Committed
    from strandline_proof.sim.oracles.replica.held import HeldOracle
    from strandline_proof.sim.oracles.replica.replica import Replica


class ExcuseOracle:
    def __init__(self, control: ControlOracle, held: HeldOracle, sometimes: Counter[str]) -> None:
        self._control = control
        self._held = held
        self._sometimes = sometimes
        self.on_over: Callable[[Key], None] = lambda key: None

    def on_mark(
        self,
        key: Key,
        ghost: Committed,
        leader: Leader,
        mark: int,
        led: Replica,
        known: dict[str, Replica],
    ) -> None:
        """A leader commits the records below `mark`, while committed records may be missing.

        Compacted logs do not show which records have survived, and nothing does where a partition
        was given up.
        """
        decided = self._control.partitions.get(key)
        if (
            decided is None
            or not ghost.can_start_again
            or self._control.is_offsets(key)
            or decided.leader_recovery_state != RECOVERED
            or decided.leader_epoch != leader.leader_epoch
            or mark < led.view.begins_at(leader.leader_epoch)
        ):
            return
        if self._held.is_whole(key, leader.partition_epoch, mark, led, known):
            ghost.start_again(
                leader.leader_epoch, led.view, mark, self._control.min_insync(decided)
            )
            self._sometimes["permitted loss over"] += 1
            self.on_over(key)
