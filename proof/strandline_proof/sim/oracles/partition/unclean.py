"""Unclean elections, in the controller's decisions and at the elected leaders (I-48, I-53).

An election that the topic allows may cost records: records that the new leader lacks are no longer
committed, and must be in the loss report. Any other one, by balanced recovery or the operator's
command, costs only what a loss of power has already cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.controller.log.records import RECOVERED

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.partition.committed import Committed
    from strandline_proof.sim.oracles.replica.log_view import LogView


class UncleanOracle:
    def __init__(self, control: ControlOracle, sometimes: Counter[str]) -> None:
        self._control = control
        self._sometimes = sometimes
        self._seen: dict[Key, int] = {}
        """The leader epoch of the last unclean election of any kind."""

    def is_allowed(self, key: Key, decided: PartitionRegistration) -> bool:
        """True if `decided` is the result of an unclean election that the topic allows, and was not
        looked at yet.
        """
        seen, epoch = self._seen.get(key, -1), decided.unclean_epoch
        self._seen[key] = epoch
        is_new = epoch > seen and epoch == decided.leader_epoch
        return is_new and self._control.elects_uncleanly(key)

    def on_decided(self, decided: PartitionRegistration, ghost: Committed) -> None:
        """The controller has committed a change of the partition."""
        if decided.leader_recovery_state == RECOVERED:
            ghost.on_in_sync(len(decided.isr))

    def on_elected(
        self, decided: PartitionRegistration, ghost: Committed, view: LogView | None
    ) -> None:
        """A leader was elected; `view` is its present log."""
        self._sometimes["elected uncleanly, as the topic allows"] += 1
        if ghost.on_unclean(decided.leader_epoch, view):
            self._sometimes["committed records lost by an unclean election"] += 1


def note_own_loss(node: Node, partition: Partition, ghost: Committed, end: int) -> None:
    """An uncleanly elected leader knew of more committed records than its log, which ends at `end`,
    has left (I-53).
    """
    believed = partition.checkpointed_high_watermark
    if partition.state is None or not partition.state.recovering or believed <= end:
        return
    # A checkpoint is the end of a batch of its history: a higher one is of an earlier history.
    known = (*ghost.entries, *ghost.lost.values())
    gone = [e for e in known if end <= e.base and e.end <= believed]
    ghost.on_given_up(node.name, node.incarnation, gone, believed)
