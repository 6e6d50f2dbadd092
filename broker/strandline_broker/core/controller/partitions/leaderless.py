"""Partitions that lost their leader to something that has passed (I-88).

A broker that cannot apply its election is elected around, and the last member of an ISR then leads
nothing although it lives (P-79). No unfencing follows, so nothing else would elect it again. What
kept it may have passed when it has applied a snapshot, which it asks for by itself.
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
    """Elections that a broker makes possible by having applied the snapshot of offset `as_of`, all
    of it but the partitions `failed`. What began a leader epoch since is answered for by itself,
    except for `came`, whose role it has come to late, and may have been elected around meanwhile;
    any other change gives the broker no new role, and may be the last of the partition.
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
    """The answer says whether a partition has a leader again."""
    elections = may_lead_again(
        state, broker_id, broker_epoch, failed=failed, as_of=as_of, came=came
    )
    ends = completions(state, elections, state.brokers)
    return Decision([*elections, *ends], answer=bool(elections))
