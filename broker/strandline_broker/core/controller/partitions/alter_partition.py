"""AlterPartition: a leader proposes an ISR, as a compare-and-set on its epochs (I-26, I-27,
KIP-497).

The order of each partition's checks matters. A leader that is ahead of us must not get the error
for an outdated leader. A retry of a committed proposal must succeed before its stale partition
epoch is noticed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from strandline_broker.core.controller.brokers.registration import check_broker_epoch
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)
from strandline_broker.core.controller.log.state import (
    ControllerState,
    PartitionRegistration,
    changed,
)
from strandline_broker.core.controller.partitions.isr import isr_change
from strandline_broker.core.controller.partitions.reassignment import completion
from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[tuple[BrokerId, BrokerEpoch], ...]
    leader_recovery_state: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The partition after the durable decision, with every value that its leader counts by."""

    partition: PartitionRegistration
    isr_with_epochs: tuple[tuple[BrokerId, BrokerEpoch], ...]
    effective_min_isr: int


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """The result of one proposal: the committed state, or the reason of its refusal. A proposal
    that ended the leader's own epoch, because it completed a reassignment, is committed and has an
    error that says so.
    """

    proposal: Proposal
    committed: Committed | None
    error: WireError | None


def decide_alter_partition(
    state: ControllerState,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    proposals: Sequence[Proposal],
) -> Decision[list[ProposalResult]]:
    """Judge each proposal separately; the accepted ones are one batch. Raises if the sender is no
    current incarnation.
    """
    check_broker_epoch(state, broker_id, broker_epoch)
    records: list[PartitionChangeRecord] = []
    results = []
    named: set[tuple[TopicId, int]] = set()
    for proposal in proposals:
        committed: Committed | None = None
        error: WireError | None = None
        try:
            key = (proposal.topic_id, proposal.partition)
            if key in named:
                raise InvalidRequest(
                    f"partition {proposal.partition} is named twice in one request"
                )
            named.add(key)
            partition, change = _judge(state, broker_id, proposal)
            if change is not None:
                at = state.next_offset + len(records)
                partition = changed(partition, change, MetadataOffset(at))
                records.append(change)
                end = completion(state, partition, state.brokers)
                if end is not None:
                    partition = changed(partition, end, MetadataOffset(at + 1))
                    records.append(end)
                    _check_still_leads(state, partition, broker_id, proposal)
            committed = Committed(
                partition,
                state.isr_with_epochs(partition),
                state.effective_min_isr(state.topics[proposal.topic_id], partition),
            )
        except WireError as refused:
            error = refused
        results.append(ProposalResult(proposal, committed, error))
    return Decision(records, answer=results)


def _judge(
    state: ControllerState, broker_id: BrokerId, proposal: Proposal
) -> tuple[PartitionRegistration, PartitionChangeRecord | None]:
    topic = state.topics.get(proposal.topic_id)
    if topic is None:
        raise UnknownTopicId(f"no topic has the id {proposal.topic_id.hex()}")
    partition = topic.partitions.get(proposal.partition)
    where = f"{topic.name}:{proposal.partition}"
    if partition is None:
        raise UnknownTopicOrPartition(f"topic {topic.name} has no partition {proposal.partition}")
    _check_epochs(partition, broker_id, proposal, where)
    members = tuple(b for b, _ in proposal.isr)
    isr = tuple(b for b in partition.replicas if b in members)
    if (
        sorted(members) == sorted(partition.isr)
        and proposal.leader_recovery_state == partition.leader_recovery_state
    ):
        return partition, None  # a retry of a committed proposal (KAFKA-14144)
    if proposal.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"{where}: partition epoch {proposal.partition_epoch} is behind "
            f"{partition.partition_epoch}"
        )
    if len(isr) != len(members) or partition.leader not in members:
        raise InvalidRequest(
            f"{where}: ISR {list(members)} is not a set of replicas {list(partition.replicas)} "
            f"with leader {partition.leader} in it"
        )
    _check_recovery(partition, proposal, where)
    for member, epoch in proposal.isr:
        _check_member(state, partition, member, epoch, where)
    directories = tuple(
        state.brokers[b].directory_id if b in isr else directory
        for b, directory in zip(partition.replicas, partition.directories, strict=True)
    )
    change = isr_change(
        state,
        partition,
        isr,
        directories=None if directories == partition.directories else directories,
        leader_recovery_state=(
            None
            if proposal.leader_recovery_state == partition.leader_recovery_state
            else proposal.leader_recovery_state
        ),
    )
    return partition, change


def _check_still_leads(
    state: ControllerState,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    proposal: Proposal,
) -> None:
    """Check that the sender still leads. The proposal is accepted, but the reassignment that it
    completed may have ended its leader epoch. The push then brings the rest to the leader.
    """
    where = f"{state.topics[partition.topic_id].name}:{partition.index}"
    if partition.leader_epoch != proposal.leader_epoch:
        done = f"{where}: the ISR is committed and has completed the reassignment"
        if partition.leader != broker_id:
            raise NewLeaderElected(f"{done}; broker {partition.leader} leads now")
        raise FencedLeaderEpoch(f"{done}; leader epoch {partition.leader_epoch} has begun")


def _check_epochs(
    partition: PartitionRegistration, broker_id: BrokerId, proposal: Proposal, where: str
) -> None:
    if (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    ):
        raise NotController(
            f"{where}: the sender is at epochs "
            f"{proposal.leader_epoch}/{proposal.partition_epoch}, this controller only at "
            f"{partition.leader_epoch}/{partition.partition_epoch}"
        )
    if proposal.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(
            f"{where}: leader epoch {proposal.leader_epoch} has ended, now is "
            f"{partition.leader_epoch}"
        )
    if partition.leader != broker_id:
        raise InvalidRequest(
            f"{where}: broker {broker_id} is not the leader, {partition.leader} is"
        )


def _check_recovery(partition: PartitionRegistration, proposal: Proposal, where: str) -> None:
    """Check the recovery flag of a proposal (I-49)."""
    if proposal.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise InvalidRequest(f"{where}: no recovery state {proposal.leader_recovery_state}")
    if proposal.leader_recovery_state == RECOVERING:
        if partition.leader_recovery_state == RECOVERED:
            raise InvalidRequest(f"{where}: a recovered partition does not begin to recover")
        if len(proposal.isr) > 1:
            raise InvalidRequest(f"{where}: the ISR grows only after the leader has recovered")


def _check_member(
    state: ControllerState,
    partition: PartitionRegistration,
    member: BrokerId,
    epoch: BrokerEpoch,
    where: str,
) -> None:
    """Check that a member is the incarnation that the leader measured, and may be in an ISR (I-23,
    I-24, P-7).

    An unmeasured member, with epoch -1, may only stay.
    """
    broker = state.brokers.get(member)
    if broker is None or not broker.eligible:
        raise IneligibleReplica(f"{where}: broker {member} is fenced, stopping or not registered")
    if member not in partition.isr and not broker.can_join(partition.topic_id, partition.index):
        raise IneligibleReplica(f"{where}: broker {member} has reported its replica as offline")
    if epoch == NO_BROKER_EPOCH and member in partition.isr:
        return
    if epoch != broker.epoch:
        raise IneligibleReplica(
            f"{where}: broker {member} was measured in epoch {epoch}, registered is {broker.epoch}"
        )
