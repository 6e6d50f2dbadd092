"""When a permitted loss is over, and what has survived it (I-54).

Once the newest leader has committed all that it began with, its whole ISR is there with the minimum
in it, and each of them holds what it calls committed, nothing that was lost before explains what is
missing from then on: a new ghost starts from that log.
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
        """A leader calls committed what lies below `mark`, where committed records may be missing.

        Where logs are compacted nobody can say what has survived, nor where a partition was given
        up.
        """
        decided = self._control.partitions.get(key)
        if (
            decided is None
            or not ghost.can_begin_anew
            or self._control.is_offsets(key)
            or decided.leader_recovery_state != RECOVERED
            or decided.leader_epoch != leader.leader_epoch
            or mark < led.view.begins_at(leader.leader_epoch)
        ):
            return
        if self._held.is_whole(key, leader.partition_epoch, mark, led, known):
            ghost.begin_anew(leader.leader_epoch, led.view, mark, self._control.min_insync(decided))
            self._sometimes["permitted loss over"] += 1
            self.on_over(key)
