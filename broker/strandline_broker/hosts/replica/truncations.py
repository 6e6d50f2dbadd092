"""Truncations that followers have refused because they would remove committed records (I-41).

Such a replica keeps its log and stops fetching. Its broker reports it to the controller, with the
refused truncation. The replica continues in three cases:

- The controller announces an unclean election that its log has not followed yet.
- The replica itself leads.
- An operator allows the truncation. The permission holds for the leader epoch in which it was
  given, until the two histories agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.replica_condition import RefusedTruncation
from strandline_proto.errors import InvalidRequest, KafkaStorageError, OffsetOutOfRange
from strandline_proto.ids import Offset, TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime


class Truncations:
    """The refused truncations of one broker; each refusal is stored on its partition."""

    def __init__(self, runtime: Runtime, me: BrokerId, controller: ToController) -> None:
        from prometheus_client import Counter, Gauge

        self._log = runtime.log
        self._me = me
        self._controller = controller
        self._refusals = Counter(
            "strandline_truncations_refused",
            "Cuts below a high watermark that followers were told to make, and have refused.",
            registry=runtime.metrics,
        )
        self._stopped = Gauge(
            "strandline_truncation_refused_replicas",
            "Replicas that have refused such a cut and fetch no more.",
            registry=runtime.metrics,
        )

    def on_refused(self, partition: Partition, offset: Offset) -> None:
        """Note that the follower has just refused to truncate its log at `offset`."""
        follower = partition.follower
        assert follower is not None, partition.name
        partition.refuse_truncation(
            RefusedTruncation(
                topic_id=TopicId(partition.log.topic_id),
                partition=partition.log.partition,
                leader=follower.leader,
                leader_epoch=follower.leader_epoch,
                offset=offset,
                high_watermark=Offset(partition.high_watermark),
                log_end_offset=Offset(partition.log.log_end_offset),
            )
        )
        self._refusals.inc()
        self._log.error(
            "truncation refused: the leader lacks records that this replica knows to be committed",
            partition=partition.name,
            leader=follower.leader,
            leader_epoch=follower.leader_epoch,
            to=offset,
            high_watermark=partition.high_watermark,
            log_end_offset=partition.log.log_end_offset,
            next=f"`strandline replica truncate {partition.log.topic}:{partition.log.partition}"
            f" --broker {self._me} --to {offset}` gives them up",
        )
        self._controller.report_offline()

    def of(self, partitions: Iterable[Partition]) -> list[RefusedTruncation]:
        """The refused truncations of these replicas."""
        found = [p.refused for p in partitions if p.refused is not None]
        self._stopped.set(len(found))
        return found

    def still_refuses(self, partition: Partition, state: PartitionState) -> bool:
        """True if the replica stays stopped as it begins to follow in a new leader epoch."""
        if partition.refused is None:
            return False
        if partition.log.leader_epochs.latest() < state.unclean_epoch:
            self.release(partition, f"leader epoch {state.unclean_epoch} began uncleanly")
        return partition.refused is not None

    def release(self, partition: Partition, why: str) -> None:
        """Drop the replica's refusal."""
        if partition.refused is not None:
            partition.release_refusal()
            self._log.warning("truncation not refused any more", partition=partition.name, why=why)
            self._controller.report_offline()

    def allow(self, partition: Partition, offset: int) -> None:
        """Let the replica truncate its log at `offset`, and where the leader's history then
        diverges from the rest; an operator allows it. Raises if there is no refusal to release.
        """
        refused, follower = partition.refused, partition.follower
        why = partition.unusable
        if why is not None:
            raise KafkaStorageError(f"{partition.name}: {why}")
        if refused is None or follower is None:
            raise InvalidRequest(f"{partition.name} on broker {self._me} has refused no truncation")
        if offset != refused.offset:
            raise OffsetOutOfRange(
                f"{partition.name} on broker {self._me} was to be cut at offset"
                f" {refused.offset}, not {offset}: look again, and name that one"
            )
        follower.allow_truncation()
        self.release(partition, f"an operator has given up what lies above offset {offset}")


def refusal_text(partition: Partition) -> str:
    """The refused truncation of a stopped replica, in words for people."""
    refused = partition.refused
    assert refused is not None, partition.name
    return (
        f"{partition.name}: stopped, as leader {refused.leader} (epoch {refused.leader_epoch})"
        f" would have it cut its log at offset {refused.offset}, below the high watermark"
        f" {refused.high_watermark}; it holds offsets up to {refused.log_end_offset - 1}"
    )
