"""Reassignment: moving the replicas of a partition to other brokers (I-85, I-86, KIP-455).

For a partition with replicas R and target T, the replicas become T and the rest of R at once. The
new ones copy while the old ones continue to serve. When every replica of T is in the ISR, the
decision that caused this ends the reassignment in the same batch. The partition then has the
replicas T, the ISR T, a leader of T, and a new leader epoch if any replica is removed. With the new
epoch the leader discards its knowledge of a removed replica, in case that returns (P-26). The
removed broker compares the epoch before it deletes the replica (P-18).

R is stored, in its order, until the end (`Partition.original`). A cancellation restores it, and
another target counts from it. Both remove replicas that were being added, as a completion removes
old ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strandline_broker.core.controller.brokers.descriptor_budget import check_room, each_counted
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import RECOVERED, PartitionChangeRecord
from strandline_broker.core.controller.log.state import (
    ControllerState,
    PartitionRegistration,
    changed,
)
from strandline_broker.core.controller.partitions.election import Brokers, elect
from strandline_proto.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId

WISHES_MAX: Final = 10_000
"""Limit on the partitions of one request."""
REPLICAS_MAX: Final = 64
"""Limit on the replicas of one partition. Each costs a copy, and every write waits for all
in sync.
"""


@dataclass(frozen=True, slots=True)
class Wish:
    topic: str
    partition: int
    target: tuple[BrokerId, ...] | None
    """The target replicas; None: cancel the reassignment under way."""


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    wish: Wish
    error: WireError | None


def check_count(wishes: Sequence[Wish]) -> None:
    """Raise InvalidRequest for more wishes than one request may have."""
    if len(wishes) > WISHES_MAX:
        raise InvalidRequest(
            f"{len(wishes)} partitions in one request, {WISHES_MAX} are possible: send several"
        )


def decide_reassignments(
    state: ControllerState, wishes: Sequence[Wish], earlier: Sequence[Wish] = ()
) -> Decision[list[ReassignmentResult]]:
    """Judge each wish separately; the accepted ones are one batch. `earlier` wishes of the same
    request were decided before: a partition may be named only once.
    """
    records: list[PartitionChangeRecord] = []
    results = []
    named = {(wish.topic, wish.partition) for wish in earlier}
    added = Counter[BrokerId]()
    for wish in wishes:
        error: WireError | None = None
        where = f"{wish.topic}:{wish.partition}"
        try:
            if (wish.topic, wish.partition) in named:
                raise InvalidRequest(f"{where} is named twice in one request: name it once")
            named.add((wish.topic, wish.partition))
            partition = _partition(state, wish)
            if wish.target is None:
                records += _cancel(state, partition, where)
            else:
                begun = _begin(state, partition, wish.target, where)
                more = added + each_counted([_new_to(partition, wish.target)])
                check_room(state, where, more)
                records += begun
                added = more
        except WireError as refused:
            error = refused
        results.append(ReassignmentResult(wish, error))
    return Decision(records, answer=results)


def completion(
    state: ControllerState, partition: PartitionRegistration, brokers: Brokers
) -> PartitionChangeRecord | None:
    """The change that ends the reassignment of `partition`; None while it must wait.

    Every replica of the target must be in the ISR (KAFKA-15665, P-68), which satisfies any minimum
    of the topic. One of them must lead, or be able to. While a leader recovers, the others may hold
    records that it lacks.
    """
    if partition.leader_recovery_state != RECOVERED:
        return None
    target = partition.target
    if partition.original == () or not set(target) <= set(partition.isr):
        return None
    return _with_replicas(state, partition, target, brokers)


def completions(
    state: ControllerState, changes: Iterable[PartitionChangeRecord], brokers: Brokers
) -> list[PartitionChangeRecord]:
    """The ends of all reassignments that `changes`, and brokers as they will be, make possible."""
    after: dict[tuple[TopicId, int], PartitionRegistration] = {}
    for change in changes:
        key = (change.topic_id, change.partition)
        before = after.get(key) or state.topics[key[0]].partitions[key[1]]
        after[key] = changed(before, change, before.changed_at)
    ends = []
    for key in {**state.index.moving, **dict.fromkeys(after)}:
        partition = after.get(key) or state.topics[key[0]].partitions[key[1]]
        end = completion(state, partition, brokers)
        if end is not None:
            ends.append(end)
    return ends


def _partition(state: ControllerState, wish: Wish) -> PartitionRegistration:
    topic_id = state.topic_ids.get(wish.topic)
    if topic_id is None:
        raise UnknownTopicOrPartition(f"no topic is called {wish.topic!r}")
    partition = state.partition(topic_id, wish.partition)
    if partition is None:
        raise UnknownTopicOrPartition(f"topic {wish.topic} has no partition {wish.partition}")
    return partition


def _new_to(partition: PartitionRegistration, target: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return tuple(b for b in target if b not in partition.replicas)


def _begin(
    state: ControllerState,
    partition: PartitionRegistration,
    target: tuple[BrokerId, ...],
    where: str,
) -> list[PartitionChangeRecord]:
    original = partition.original or partition.replicas
    _check_target(state, partition, target, where)
    if target == partition.target:
        return []  # the partition is there already, or on its way
    removing = tuple(b for b in original if b not in target)
    begin = _with_replicas(
        state,
        partition,
        (*target, *removing),
        state.brokers,
        adding=tuple(b for b in target if b not in original),
        removing=removing,
        original=original,
    )
    if begin is None:
        raise _stranded(partition, where)
    end = completion(state, changed(partition, begin, partition.changed_at), state.brokers)
    return [begin] if end is None else [begin, end]


def _cancel(
    state: ControllerState, partition: PartitionRegistration, where: str
) -> list[PartitionChangeRecord]:
    if partition.original == ():
        raise NoReassignmentInProgress(f"{where}: no reassignment is under way")
    back = _with_replicas(state, partition, partition.original, state.brokers)
    if back is None:
        raise _stranded(partition, where)
    return [back]


def _with_replicas(
    state: ControllerState,
    partition: PartitionRegistration,
    replicas: tuple[BrokerId, ...],
    brokers: Brokers,
    *,
    adding: tuple[BrokerId, ...] = (),
    removing: tuple[BrokerId, ...] = (),
    original: tuple[BrokerId, ...] = (),
) -> PartitionChangeRecord | None:
    """The change that gives the partition these replicas; None if it removes replicas and no
    remaining ISR member could lead (I-86).
    """
    directory = dict(zip(partition.replicas, partition.directories, strict=True))
    directories = tuple(
        directory[b] if b in directory else brokers[b].directory_id for b in replicas
    )
    isr = tuple(b for b in replicas if b in partition.isr)
    leader: BrokerId | None = None
    if not set(partition.replicas) <= set(replicas):
        # The epoch is new even under the same leader: its knowledge of the removed replica, and
        # messages under way from there, must not count for one that returns later (P-26).
        leader = partition.leader
        if leader not in isr:
            leader = elect(
                replace(partition, replicas=replicas, directories=directories), isr, brokers
            )
        if leader == NO_LEADER:
            return None
    min_isr = state.effective_min_isr(
        state.topics[partition.topic_id], replace(partition, replicas=replicas, original=original)
    )
    elr = () if len(isr) >= min_isr else tuple(b for b in partition.elr if b in replicas)
    known = {*partition.elr, *partition.last_known_elr} - {*elr}
    last_known_elr = tuple(b for b in replicas if b in known)
    is_moving = adding != () or removing != ()
    return PartitionChangeRecord(
        topic_id=partition.topic_id,
        partition=partition.index,
        isr=None if isr == partition.isr else isr,
        leader=leader,
        replicas=replicas,
        directories=directories,
        adding=adding,
        removing=removing,
        original=original if is_moving else (),
        elr=None if elr == partition.elr else elr,
        last_known_elr=None if last_known_elr == partition.last_known_elr else last_known_elr,
    )


def _check_target(
    state: ControllerState,
    partition: PartitionRegistration,
    target: tuple[BrokerId, ...],
    where: str,
) -> None:
    if not target or len(set(target)) != len(target):
        raise InvalidReplicaAssignment(
            f"{where}: target replicas {list(target)} are none, or repeat a broker: name each once"
        )
    if len(target) > REPLICAS_MAX:
        raise InvalidReplicaAssignment(
            f"{where}: {len(target)} target replicas, {REPLICAS_MAX} are possible"
        )
    for broker_id in target:
        broker = state.brokers.get(broker_id)
        if broker is None:
            raise InvalidReplicaAssignment(
                f"{where}: broker {broker_id} of the target is not registered, brokers "
                f"{sorted(state.brokers)} are"
            )
        if broker_id in partition.replicas:
            continue
        if broker.decommissioning:
            raise InvalidReplicaAssignment(
                f"{where}: broker {broker_id} of the target is being decommissioned and takes no "
                "new replicas"
            )
        if not broker.eligible:
            raise InvalidReplicaAssignment(
                f"{where}: broker {broker_id} of the target is fenced or stopping, so it cannot "
                "copy the partition now; start it, or choose another"
            )


def _stranded(partition: PartitionRegistration, where: str) -> InvalidReplicaAssignment:
    return InvalidReplicaAssignment(
        f"{where}: no live replica that would stay is in the ISR {list(partition.isr)}, so "
        "the replicas in sync must stay too; try again when one of the others is in sync"
    )
