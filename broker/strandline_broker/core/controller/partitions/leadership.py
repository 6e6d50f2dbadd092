"""Leader changes by an administrator: to the preferred replica, or to a chosen one.

Only an ISR member takes over: alive, on the disk on which it was in sync, and sound (I-48). Nothing
acknowledged is therefore lost. The leader epoch rises, which fences the previous leader (I-35). An
unclean election is only for a partition without a leader, and may lose records. Each partition is
answered separately.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import PartitionChangeRecord
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_broker.core.controller.partitions.election import electable
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_broker.core.controller.partitions.recovery import unclean_election
from strandline_proto.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1
    DESIGNATED = 100
    """Our own type: the replica that the request names."""


@dataclass(frozen=True, slots=True)
class ElectionWish:
    topic: str
    partition: int
    leader: BrokerId = NO_LEADER
    """The chosen leader of a designated election."""


@dataclass(frozen=True, slots=True)
class ElectionResult:
    topic: str
    partition: int
    leader: BrokerId
    """The leader after the election."""
    error: WireError | None = None


def preferred_leader(partition: PartitionRegistration) -> BrokerId:
    return partition.replicas[0]


def election_type(number: int) -> ElectionType:
    """The type with this number. Raises InvalidRequest if there is none."""
    try:
        return ElectionType(number)
    except ValueError:
        raise InvalidRequest(
            f"election type {number} is unknown: 0 is preferred, 1 unclean, 100 designated"
        ) from None


def wishes_of_topic(state: ControllerState, topic: str) -> list[ElectionWish]:
    """A wish for every partition of the topic. Raises UnknownTopicOrPartition."""
    topic_id = state.topic_ids.get(topic)
    if topic_id is None:
        raise UnknownTopicOrPartition(f"no topic is called {topic!r}")
    return [ElectionWish(topic, index) for index in sorted(state.topics[topic_id].partitions)]


def wishes_where_needed(
    state: ControllerState, kind: ElectionType = ElectionType.PREFERRED
) -> list[ElectionWish]:
    """A wish for every partition of the cluster whose leader is not the preferred one or, for an
    unclean election, that has no leader.
    """
    return [
        ElectionWish(topic.name, partition.index)
        for topic in state.topics.values()
        for partition in topic.partitions.values()
        if (
            partition.leader == NO_LEADER
            if kind is ElectionType.UNCLEAN
            else partition.leader != preferred_leader(partition)
        )
    ]


def decide_elect_leaders(
    state: ControllerState,
    kind: ElectionType,
    wishes: Sequence[ElectionWish],
    ends: LogEnds | None = None,
) -> Decision[list[ElectionResult]]:
    """Decide one election for each wish, in one batch; a repeated partition is refused.

    `ends` holds what is known of the logs of partitions without a leader. The answer is in the
    order of the wishes.
    """
    ends = ends or LogEnds()
    changes: list[PartitionChangeRecord] = []
    results = []
    seen = set()
    for wish in wishes:
        leader = _leader(state, wish)
        try:
            if (wish.topic, wish.partition) in seen:
                raise InvalidRequest(f"{wish.topic}:{wish.partition} is named twice: name it once")
            seen.add((wish.topic, wish.partition))
            change = _elected(state, kind, wish, ends)
        except WireError as error:
            results.append(ElectionResult(wish.topic, wish.partition, leader, error))
        else:
            assert change.leader is not None
            changes.append(change)
            results.append(ElectionResult(wish.topic, wish.partition, change.leader))
    changes += completions(state, changes, state.brokers)
    return Decision(changes, answer=results)


def _find(state: ControllerState, wish: ElectionWish) -> PartitionRegistration | None:
    topic_id = state.topic_ids.get(wish.topic)
    return None if topic_id is None else state.partition(topic_id, wish.partition)


def _leader(state: ControllerState, wish: ElectionWish) -> BrokerId:
    partition = _find(state, wish)
    return NO_LEADER if partition is None else partition.leader


def _elected(
    state: ControllerState, kind: ElectionType, wish: ElectionWish, ends: LogEnds
) -> PartitionChangeRecord:
    where = f"{wish.topic}:{wish.partition}"
    partition = _find(state, wish)
    if partition is None:
        raise UnknownTopicOrPartition(f"there is no partition {where}")
    if kind is ElectionType.UNCLEAN:
        return _unclean(state, partition, ends, where)
    designated = kind is ElectionType.DESIGNATED
    wanted = wish.leader if designated else preferred_leader(partition)
    if wanted not in partition.replicas:
        raise InvalidReplicaAssignment(
            f"{where}: broker {wanted} holds no replica; brokers {list(partition.replicas)} do"
        )
    if partition.leader == wanted:
        raise ElectionNotNeeded(f"{where}: broker {wanted} leads it already")
    why = why_not(state, partition, wanted)
    if why is not None:
        refusal = EligibleLeadersNotAvailable if designated else PreferredLeaderNotAvailable
        raise refusal(f"{where}: broker {wanted} cannot lead, {why}")
    return PartitionChangeRecord(
        topic_id=partition.topic_id, partition=partition.index, leader=wanted
    )


def _unclean(
    state: ControllerState, partition: PartitionRegistration, ends: LogEnds, where: str
) -> PartitionChangeRecord:
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{where}: broker {partition.leader} leads it")
    change = unclean_election(state, partition, ends)
    if change is None:
        raise EligibleLeadersNotAvailable(
            f"{where}: no broker of {list(partition.replicas)} is alive and serves its replica; "
            "start one"
        )
    return change


def why_not(
    state: ControllerState, partition: PartitionRegistration, broker_id: BrokerId
) -> str | None:
    """The reason why that replica may not take over now; None if it may.

    A replica that lacks a damaged range, or has no room, may not either: the present leader is
    better.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return "it is not alive"
    if broker.in_controlled_shutdown:
        return "it is stopping"
    if broker_id not in partition.isr:
        return f"it is not in sync: the ISR is {sorted(partition.isr)}"
    condition = broker.condition_of(partition.topic_id, partition.index)
    if condition is not None and not condition.is_sound:
        return f"its replica is {condition}"
    if not electable(partition, broker_id, state.brokers):
        return "its replica is on another disk than it was in sync on"
    return None
