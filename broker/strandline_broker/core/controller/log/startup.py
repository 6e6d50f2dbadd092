"""The first decision of a controller that starts: its epoch, durable before it sends any message in
that epoch (I-31).

The cluster's default of min.insync.replicas is a record, not only a line in a file. If a start
finds another default, the partitions that it changes get a new partition epoch in the same batch.
Leaders thus learn of it (I-91). The default of unclean.leader.election.enable is a record too, for
clients that ask a broker for it.
"""

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    ConfigRecord,
    epoch_record,
)
from strandline_broker.core.controller.log.state import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ControllerState,
)
from strandline_broker.core.controller.partitions.isr import isr_change, minimum_change
from strandline_proto.ids import NO_LEADER, ControllerEpoch


def decide_start(
    state: ControllerState,
    *,
    min_insync_replicas: int,
    unclean_election: bool = False,
    build: str = "",
) -> Decision[ControllerEpoch]:
    epoch = ControllerEpoch(max(state.controller_epoch, 0) + 1)
    records: list[AnyRecord] = [epoch_record(epoch, build=build)]
    old = state.defaults.get(MIN_INSYNC_REPLICAS)
    if old != str(min_insync_replicas):
        records.append(ConfigRecord(key=MIN_INSYNC_REPLICAS, value=str(min_insync_replicas)))
        for topic in state.topics.values():
            if MIN_INSYNC_REPLICAS in (*topic.configs, *state.dynamic_defaults):
                continue
            records += [minimum_change(partition) for partition in topic.partitions.values()]
    # A log from before eligible leader replicas keeps a last member, which leads nothing, in the
    # ISR.
    records += [
        isr_change(state, partition, ())
        for partition in state.partitions()
        if partition.leader == NO_LEADER and partition.isr
    ]
    unclean = str(unclean_election).lower()
    if state.defaults.get(UNCLEAN_ELECTION, "false") != unclean:
        records.append(ConfigRecord(key=UNCLEAN_ELECTION, value=unclean))
    return Decision(records, answer=epoch)
