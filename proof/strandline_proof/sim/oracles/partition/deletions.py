"""I-75: replicas that hold no deleted record any more, from leaders' answers to DeleteRecords and
the controller's log.

A leader waits for the ISR that it counts by. A deposed leader that has not learned of it counts by
an older ISR. A replica that had left that ISR, and was elected since because it was eligible, need
not have deleted the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.replication.leader import Leader
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
    from strandline_proto.ids import BrokerId

METHOD: Final = "DeleteRecords"


class DeletionOracle:
    def __init__(
        self,
        nodes: Mapping[str, Node],
        members: Mapping[int, Node],
        control: ControlOracle,
        replicas: ReplicaOracle,
    ) -> None:
        self._nodes = nodes
        self._members = members
        self._control = control
        self._replicas = replicas

    def overhear(self, node: str) -> _Heard:
        """A call to that node begins."""
        return _Heard(self, node)

    def on_answer(self, name: str, answer: Any) -> None:
        for topic in answer.topics:
            for result in topic.partitions:
                if result.error_code == 0:
                    self._on_deleted(name, (topic.topic_id, result.partition), result.low_watermark)

    def _on_deleted(self, name: str, key: Key, low_watermark: int) -> None:
        partition = self._nodes[name].process.replicas.partitions.get(key)
        leader = None if partition is None else partition.leader
        if leader is None or key not in self._control.partitions:
            return  # the leader was deposed, or the topic deleted, since it has decided so
        isr = self._isr_of(key, leader)
        witnesses = frozenset(self._members[member].name for member in isr)
        self._replicas.ghost(key).on_deleted(low_watermark, witnesses)

    def _isr_of(self, key: Key, leader: Leader) -> set[BrokerId]:
        """The members of the ISR that are also in the leader's ISR. While the leader is not deposed
        these are the same: a replica joins only by a proposal of the leader.
        """
        newest = self._control.partitions[key]
        isr = {*newest.isr}
        if leader.leader_epoch == newest.leader_epoch:
            return isr
        then = self._control.decided.at(key, leader.partition_epoch)
        if then is None:
            return set()
        # A broker that has registered since is another process, and perhaps another machine.
        brokers = self._control.brokers
        return {m for m in isr & {*then.isr} if brokers[m].epoch <= then.offset}


class _Heard:
    def __init__(self, oracle: DeletionOracle, node: str) -> None:
        self._oracle = oracle
        self._node = node

    def on_read(self, message: Any) -> None:
        """Reads nothing: the answer alone names the deletion."""

    def on_said(self, message: Any) -> None:
        self._oracle.on_answer(self._node, message)
