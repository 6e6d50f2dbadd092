"""More partitions for an existing topic, in one atomic batch (KIP-195).

Existing partitions keep their numbers, replicas and records; the number of partitions cannot be
reduced.
"""

from dataclasses import dataclass

from strandline_broker.core.controller.brokers.descriptor_budget import check_room, each_counted
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.state import ControllerState, Topic
from strandline_broker.core.controller.topics.assignment import assign, load_of
from strandline_broker.core.controller.topics.topics import (
    PARTITIONS_MAX,
    candidates_for,
    check_replicas,
    new_partition,
)
from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_proto.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidTopic,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import BrokerId


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A request. `assignments` lists the replicas of each new partition, in order; without it the
    controller chooses.
    """

    topic: str
    count: int
    """Total number of partitions, including the existing ones."""
    assignments: tuple[tuple[BrokerId, ...], ...] = ()


def decide_create_partitions(
    state: ControllerState, wish: MorePartitions, *, validate_only: bool
) -> Decision[int]:
    """Add partitions; the answer is the previous number. Raises the error of an invalid request.

    New partitions have as many replicas as the first one is to have.
    """
    topic_id = state.topic_ids.get(wish.topic)
    if topic_id is None:
        raise UnknownTopicOrPartition(f"no topic is called {wish.topic!r}")
    topic = state.topics[topic_id]
    if topic.name in INTERNAL_TOPICS:
        raise InvalidTopic(
            f"topic {topic.name} is internal and keeps its {len(topic.partitions)} partitions:"
            " which of them coordinates a group follows from their number"
        )
    before = len(topic.partitions)
    _check_count(wish, before)
    first = topic.partitions[0]
    factor = len(first.target)
    if wish.assignments:
        assignments = _checked(state, wish, before, factor)
    else:
        assignments = _automatic(state, topic, wish, before, factor)
    check_room(state, f"topic {wish.topic}", each_counted(assignments))
    if validate_only:
        return Decision((), answer=before)
    records = [
        new_partition(state, topic_id, before + added, replicas)
        for added, replicas in enumerate(assignments)
    ]
    return Decision(records, answer=before)


def _check_count(wish: MorePartitions, before: int) -> None:
    where = f"topic {wish.topic}"
    if wish.count < before:
        raise InvalidPartitions(
            f"{where}: has {before} partitions, {wish.count} were asked for; it cannot have fewer, "
            "since the records of those that go would be lost: create another topic instead"
        )
    if wish.count == before:
        raise InvalidPartitions(f"{where}: has {before} partitions already")
    if wish.count > PARTITIONS_MAX:
        raise InvalidPartitions(
            f"{where}: {wish.count} partitions asked for, possible are up to {PARTITIONS_MAX}"
        )


def _automatic(
    state: ControllerState, topic: Topic, wish: MorePartitions, before: int, factor: int
) -> list[tuple[BrokerId, ...]]:
    return assign(
        candidates_for(state, wish.topic, factor),
        partitions=wish.count - before,
        replication_factor=factor,
        cluster=state.index.load.copy(),
        topic=load_of(p.replicas for p in topic.partitions.values()),
    )


def _checked(
    state: ControllerState, wish: MorePartitions, before: int, factor: int
) -> list[tuple[BrokerId, ...]]:
    added = wish.count - before
    if len(wish.assignments) != added:
        raise InvalidReplicaAssignment(
            f"topic {wish.topic}: replicas of {len(wish.assignments)} partitions are given, "
            f"{added} are new"
        )
    for index, replicas in enumerate(wish.assignments, start=before):
        check_replicas(state, f"{wish.topic}:{index}", replicas, factor)
    return list(wish.assignments)
