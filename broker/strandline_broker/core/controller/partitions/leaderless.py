"""Partitions whose leader was lost to a fault that has ended (I-88).

If a broker cannot apply its election, another one is elected. If it was the last member of an ISR,
the partition has no leader although the broker lives (P-79). No unfencing follows, so no other
event would elect it again. The broker requests a snapshot by itself; once it has applied that, the
fault may have ended.
"""

from collections.abc import Set

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import PartitionChangeRecord
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.election import lead_again
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicId


def may_lead_again(
    state: ControllerState,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    failed: Set[tuple[TopicId, int]],
    as_of: MetadataOffset,
    came: Set[tuple[TopicId, int]] = frozenset(),
) -> list[PartitionChangeRecord]:
    """Elections that become possible because a broker has applied the snapshot of offset `as_of`,
    except for the partitions `failed`.

    A leader epoch that began later gets its own report. The exception is `came`: the broker took
    that role late, and another may have been elected meanwhile. Any other change gives the broker
    no new role, and may be the last of the partition.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        return []
    elections = []
    for change in lead_again(state, broker_id, state.brokers):
        partition = state.partition(change.topic_id, change.partition)
        assert partition is not None, change
        key = (partition.topic_id, partition.index)
        if key in came or (partition.elected_at <= as_of and key not in failed):
            elections.append(change)
    return elections


def decide_lead_again(
    state: ControllerState,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    failed: Set[tuple[TopicId, int]],
    as_of: MetadataOffset,
    came: Set[tuple[TopicId, int]] = frozenset(),
) -> Decision[bool]:
    """Elect leaders again; the answer is True if a partition got one."""
    elections = may_lead_again(
        state, broker_id, broker_epoch, failed=failed, as_of=as_of, came=came
    )
    ends = completions(state, elections, state.brokers)
    return Decision([*elections, *ends], answer=bool(elections))
