"""Whether brokers have descriptors for more replicas: each holds its active segment open.

A broker that runs out of them cannot open logs at its next start either, so more replicas than its
limit allows are refused where they are asked for.
"""

from collections import Counter
from collections.abc import Iterable

from strandline_broker.core.controller.log.state import ControllerState
from strandline_proto.errors import InvalidPartitions
from strandline_proto.ids import BrokerId


def check_room(state: ControllerState, where: str, added: Counter[BrokerId]) -> None:
    """`added`: how many replicas each broker is to hold that it does not hold. Raises
    InvalidPartitions.
    """
    for broker_id, more in sorted(added.items()):
        most = state.brokers[broker_id].replicas_max
        held = len(state.index.hosted.get(broker_id, ()))
        if 0 < most < held + more:
            raise InvalidPartitions(
                f"{where}: broker {broker_id} holds {held} replicas and was to hold {more} more, "
                f"its limit of open files is enough for {most}: raise that limit by "
                f"{held + more - most} (ulimit -Hn, LimitNOFILE=) and restart the broker, add "
                "brokers, or ask for fewer partitions"
            )


def each_counted(assignments: Iterable[tuple[BrokerId, ...]]) -> Counter[BrokerId]:
    """Of how many partitions each broker is to hold a replica."""
    return Counter(broker_id for replicas in assignments for broker_id in replicas)
