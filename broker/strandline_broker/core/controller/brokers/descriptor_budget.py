"""The limit on replicas by a broker's file descriptors: each replica holds its active segment open.

A broker without enough descriptors cannot open its logs at the next start either. A request for
more replicas than its limit is therefore refused.
"""

from collections import Counter
from collections.abc import Iterable

from strandline_broker.core.controller.log.state import ControllerState
from strandline_proto.errors import InvalidPartitions
from strandline_proto.ids import BrokerId


def check_room(state: ControllerState, where: str, added: Counter[BrokerId]) -> None:
    """Raise InvalidPartitions if a broker has no room for its `added` replicas."""
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
    """Number of replicas that each broker gets by these assignments."""
    return Counter(broker_id for replicas in assignments for broker_id in replicas)
