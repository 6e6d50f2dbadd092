"""Conditions of replicas, on the wire."""

from typing import Final

from strandline_broker.core.replica_condition import ReplicaCondition
from strandline_proto.v1 import common_pb2

_TO_WIRE: Final = {
    c: common_pb2.ReplicaCondition.Value(f"REPLICA_CONDITION_{c.name}") for c in ReplicaCondition
}
_FROM_WIRE: Final[dict[int, ReplicaCondition]] = {n: c for c, n in _TO_WIRE.items()}


def condition_to_wire(condition: ReplicaCondition | None) -> common_pb2.ReplicaCondition.ValueType:
    """None: the replica's broker is fenced, or not registered."""
    if condition is None:
        return common_pb2.REPLICA_CONDITION_UNSPECIFIED
    return _TO_WIRE[condition]


def condition_from_wire(number: int) -> ReplicaCondition | None:
    """One that this build does not know counts as the worst."""
    if number == common_pb2.REPLICA_CONDITION_UNSPECIFIED:
        return None
    return _FROM_WIRE.get(number, ReplicaCondition.OUT_OF_SERVICE)
