"""Conditions of replicas and refused truncations, on the wire."""

from typing import Final

from strandline_broker.core.replication.replica_condition import RefusedTruncation, ReplicaCondition
from strandline_proto.ids import BrokerId, LeaderEpoch, Offset, TopicId
from strandline_proto.v1 import common_pb2, truncations_pb2

_TO_WIRE: Final = {
    c: common_pb2.ReplicaCondition.Value(f"REPLICA_CONDITION_{c.name}") for c in ReplicaCondition
}
_FROM_WIRE: Final[dict[int, ReplicaCondition]] = {n: c for c, n in _TO_WIRE.items()}


def condition_to_wire(condition: ReplicaCondition | None) -> common_pb2.ReplicaCondition.ValueType:
    """A condition on the wire. None means that the replica's broker is fenced or not registered."""
    if condition is None:
        return common_pb2.REPLICA_CONDITION_UNSPECIFIED
    return _TO_WIRE[condition]


def condition_from_wire(number: int) -> ReplicaCondition | None:
    """A condition from the wire. A number that this build does not know counts as the worst."""
    if number == common_pb2.REPLICA_CONDITION_UNSPECIFIED:
        return None
    return _FROM_WIRE.get(number, ReplicaCondition.OUT_OF_SERVICE)


def refusal_to_wire(refused: RefusedTruncation) -> truncations_pb2.RefusedTruncation:
    return truncations_pb2.RefusedTruncation(
        topic_id=refused.topic_id,
        partition_index=refused.partition,
        leader_id=refused.leader,
        leader_epoch=refused.leader_epoch,
        offset=refused.offset,
        high_watermark=refused.high_watermark,
        log_end_offset=refused.log_end_offset,
    )


def refusal_from_wire(refused: truncations_pb2.RefusedTruncation) -> RefusedTruncation:
    return RefusedTruncation(
        topic_id=TopicId(refused.topic_id),
        partition=refused.partition_index,
        leader=BrokerId(refused.leader_id),
        leader_epoch=LeaderEpoch(refused.leader_epoch),
        offset=Offset(refused.offset),
        high_watermark=Offset(refused.high_watermark),
        log_end_offset=Offset(refused.log_end_offset),
    )
