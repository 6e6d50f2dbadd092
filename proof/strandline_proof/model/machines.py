"""The core's machines, put to rest as values and woken up again.

The model touches the machines' fields in this module only; a field that this module does not list
stops the model at once. A machine's times are reduced to "just now" and "too long ago". Its request
ids are reduced to one, as only its newest request can be answered here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller.log.records import RECOVERED, RECOVERING
from strandline_broker.core.controller.log.state import (
    MIN_INSYNC_REPLICAS,
    Broker,
    ControllerState,
    PartitionRegistration,
    Topic,
)
from strandline_broker.core.replication.follower import Follower
from strandline_broker.core.replication.isr_proposal import Proposal, ProposeIsr
from strandline_broker.core.replication.leader import Leader
from strandline_broker.core.replication.partition_state import IsrMember, PartitionState
from strandline_proof.model.values import (
    BROKERS,
    MIN_ISR,
    Decided,
    FollowerView,
    LeaderView,
    ProposalView,
    RegisteredBroker,
)
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    Offset,
    PartitionEpoch,
    TopicId,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_ID: Final = TopicId(b"the only topic..")
REPLICAS: Final = tuple(BrokerId(b) for b in BROKERS)
NOW_MS: Final = 1_000_000
OLD_MS: Final = 0
LAG_MS_MAX: Final = 500_000
REQUEST_ID: Final = 1
LATEST: Final = MetadataOffset(1_000)
"""Offset of the controller's last record: above every incarnation's number."""

_LEADER_FIELDS: Final = {
    "leader_epoch",
    "epoch_start",
    "high_watermark",
    "log_end_offset",
    "log_start_offset",
    "durable_offset",
    "followers",
    "isr",
    "partition_epoch",
    "_me",
    "_eligible",
    "_offline",
    "_lag_ms_max",
    "_flush_always",
    "_now_ms",
    "_proposal",
    "_requests",
    "_join_not_before_ms",
    "_epoch_was_pushed",
    "_state",
    "_where",
    "_eff_min_insync",
}
_FOLLOWER_FIELDS: Final = {
    "leader",
    "leader_epoch",
    "partition_epoch",
    "truncate_to_high_watermark",
    "_unclean_epoch",
    "_over",
    "refuses_truncation",
    "is_answered",
    "_may_cut",
}


def rest_leader(leader: Leader) -> LeaderView:
    assert vars(leader).keys() == _LEADER_FIELDS, "the model does not know this Leader"
    assert not leader._flush_always, "what is durable is not part of the model"
    assert leader._offline == frozenset(), "no replica of the model fails without its broker"
    assert leader.log_start_offset == 0
    proposal = leader._proposal
    return LeaderView(
        me=leader._me,
        state=leader._state,
        epoch_start=leader.epoch_start,
        high_watermark=leader.high_watermark,
        log_end_offset=leader.log_end_offset,
        followers=tuple(sorted(leader.followers.items())),
        isr=leader.isr,
        eligible=frozen_eligible(leader._eligible),
        epoch_was_pushed=leader._epoch_was_pushed,
        proposal=None
        if proposal is None
        else ProposalView(
            isr=proposal.request.isr,
            partition_epoch=proposal.request.partition_epoch,
            joins=tuple(sorted(proposal.joins)),
            waits_to_retry=proposal.retry_at_ms is not None,
            unsure=proposal.unsure,
            refused=proposal.refused,
        ),
    )


def wake_leader(view: LeaderView) -> Leader:
    leader = Leader.__new__(Leader)
    leader.leader_epoch = view.state.leader_epoch
    leader.epoch_start = Offset(view.epoch_start)
    leader.high_watermark = Offset(view.high_watermark)
    leader.log_end_offset = leader.durable_offset = Offset(view.log_end_offset)
    leader.log_start_offset = Offset(0)
    leader.followers = {BrokerId(b): follower for b, follower in view.followers}
    leader.isr = view.isr
    leader.partition_epoch = view.state.partition_epoch
    leader._me = view.me
    leader._eligible = thawed_eligible(view.eligible)
    leader._offline = frozenset()
    leader._lag_ms_max = LAG_MS_MAX
    leader._flush_always = False
    leader._now_ms = NOW_MS
    leader._requests = 0
    leader._join_not_before_ms = NOW_MS
    leader._epoch_was_pushed = view.epoch_was_pushed
    leader._state = view.state
    leader._where = view.state.where
    leader._eff_min_insync = view.state.eff_min_insync
    leader._proposal = None
    if view.proposal is not None:
        asked = view.proposal
        request = ProposeIsr(
            REQUEST_ID,
            asked.isr,
            view.state.leader_epoch,
            PartitionEpoch(asked.partition_epoch),
        )
        leader._proposal = Proposal(
            request,
            joins=frozenset(asked.joins),
            retry_at_ms=NOW_MS if asked.waits_to_retry else None,
            unsure=asked.unsure,
            refused=asked.refused,
        )
    return leader


def rest_follower(follower: Follower, state: PartitionState) -> FollowerView:
    assert vars(follower).keys() == _FOLLOWER_FIELDS, "the model does not know this Follower"
    # Only a leader that heals uses the answer, and no log of the model is damaged.
    return FollowerView(
        told=state,
        is_over=follower._over,
        truncates_to_high_watermark=follower.truncate_to_high_watermark,
    )


def wake_follower(view: FollowerView) -> Follower:
    follower = Follower(view.told, truncate_to_high_watermark=view.truncates_to_high_watermark)
    follower._over = view.is_over
    return follower


def frozen_eligible(eligible: Mapping[BrokerId, BrokerEpoch]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(eligible.items()))


def thawed_eligible(eligible: tuple[tuple[int, int], ...]) -> dict[BrokerId, BrokerEpoch]:
    return {BrokerId(b): BrokerEpoch(epoch) for b, epoch in eligible}


def for_follower(state: PartitionState) -> PartitionState:
    """The part of the state that a follower reads. States that differ only elsewhere are one state
    to a follower.
    """
    return replace(state, isr=(), elr=(), recovering=False, partition_epoch=PartitionEpoch(0))


# The controller


def wake_controller(decided: Decided) -> ControllerState:
    state = ControllerState(controller_epoch=ControllerEpoch(1), last_offset=LATEST)
    state.defaults[MIN_INSYNC_REPLICAS] = str(MIN_ISR)
    for broker_id, broker in zip(REPLICAS, decided.brokers, strict=True):
        state.brokers[broker_id] = _broker(broker_id, broker)
    state.add_topic(Topic("t", TOPIC_ID))
    partition = PartitionRegistration(
        topic_id=TOPIC_ID,
        index=0,
        replicas=REPLICAS,
        directories=tuple(f"disk{b}" for b in REPLICAS),
        isr=tuple(BrokerId(b) for b in decided.isr),
        leader=BrokerId(decided.leader),
        leader_epoch=LeaderEpoch(decided.leader_epoch),
        partition_epoch=PartitionEpoch(decided.partition_epoch),
        leader_recovery_state=RECOVERING if decided.is_recovering else RECOVERED,
        adding=(),
        removing=(),
        elr=tuple(BrokerId(b) for b in decided.elr),
        last_known_elr=tuple(BrokerId(b) for b in decided.last_known_elr),
        changed_at=MetadataOffset(0),
        elected_at=MetadataOffset(0),
        unclean_epoch=LeaderEpoch(decided.unclean_epoch),
    )
    state.put(partition)
    return state


def _broker(broker_id: BrokerId, broker: RegisteredBroker) -> Broker:
    return Broker(
        broker_id=broker_id,
        epoch=BrokerEpoch(broker.epoch),
        incarnation_id=f"{broker_id}.{broker.epoch}",
        directory_id=f"disk{broker_id}",
        flush_policy="replicated",
        pid=1,
        version="",
        listeners=(Endpoint("L", "h", 1),),
        inter_broker_listener="L",
        rack="",
        features=(),
        log_dirs=(),
        fencing_offset=MetadataOffset(broker.epoch),
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_stopping,
        shutdown_offset=LATEST if broker.is_stopping else None,
    )


def rest_controller(state: ControllerState, *, before: Decided) -> Decided:
    """The new epoch, an offset, becomes the next incarnation number of its broker."""
    partition = state.topics[TOPIC_ID].partitions[0]
    brokers = []
    for broker, old in zip(state.brokers.values(), before.brokers, strict=True):
        epoch = old.epoch + 1 if broker.epoch > LATEST else broker.epoch
        brokers.append(RegisteredBroker(epoch, broker.fenced, broker.in_controlled_shutdown))
    return Decided(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
        brokers=tuple(brokers),
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
        is_recovering=partition.leader_recovery_state != RECOVERED,
        unclean_epoch=partition.unclean_epoch,
    )


def pushed(decided: Decided) -> PartitionState:
    """The partition as the controller's push describes it to a broker."""
    state = wake_controller(decided)
    topic = state.topics[TOPIC_ID]
    partition = topic.partitions[0]
    return PartitionState(
        topic="t",
        topic_id=TOPIC_ID,
        partition=0,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=tuple(IsrMember(*member) for member in state.isr_with_epochs(partition)),
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        elr=partition.elr,
        eff_min_insync=state.effective_min_isr(topic, partition),
        is_new=False,
        recovering=partition.leader_recovery_state != RECOVERED,
        unclean_epoch=partition.unclean_epoch,
    )


def pushed_eligible(decided: Decided) -> tuple[tuple[int, int], ...]:
    return tuple(
        (b, broker.epoch)
        for b, broker in zip(BROKERS, decided.brokers, strict=True)
        if not broker.is_fenced and not broker.is_stopping
    )
