"""User-visible names of the conditions in which a replica does not count."""

from strandline_proto.v1 import common_pb2

FENCED = "fenced"
UNKNOWN = "unknown"


def condition_name(number: int) -> str:
    """The name of a condition: `disk-full` for REPLICA_CONDITION_DISK_FULL; `fenced` if the broker
    is.
    """
    if number == common_pb2.REPLICA_CONDITION_UNSPECIFIED:
        return FENCED
    value = common_pb2.ReplicaCondition.DESCRIPTOR.values_by_number.get(number)
    if value is None:
        return UNKNOWN
    return value.name.removeprefix("REPLICA_CONDITION_").lower().replace("_", "-")
