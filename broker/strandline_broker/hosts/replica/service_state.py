"""The check that a replica may serve at all, for the life of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.replica.partition import Partition


def unusable(partition: Partition) -> str | None:
    """The reason why the replica serves nothing; None if it serves."""
    return partition.out_of_service or partition.other_history or partition.log.damaged


def admit_epoch(partition: Partition, state: PartitionState) -> None:
    """Raise KafkaStorageError, from here on for every role, if the log holds a later epoch than the
    controller knows: one of the two has another history (I-2).
    """
    latest = partition.log.leader_epochs.latest()
    if latest > state.leader_epoch:
        why = (
            f"{partition.log.path} holds leader epoch {latest}, and the controller knows of none "
            f"above {state.leader_epoch}: move the directory away, and the replica is copied anew"
        )
        partition.refuse_history(why)
        raise KafkaStorageError(why)
