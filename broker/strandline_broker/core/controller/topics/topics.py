"""Creation and deletion of topics, each topic one atomic decision."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline_broker.core.controller.brokers.descriptor_budget import check_room, each_counted
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.topics.assignment import Candidate, assign
from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.core.topic_config import check_topic_configs
from strandline_proto.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId, topic_id_text

NAME_LENGTH_MAX: Final = 249
PARTITIONS_MAX: Final = 10_000
"""Limit on the partitions of one topic; its records are one batch of the controller's log and one
push.
"""
RESERVED: Final = frozenset({"__cluster_metadata"})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A request; -1 stands for the controller's default."""

    name: str
    partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...]
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str
    topic_id: TopicId


def check_topic_name(name: str) -> None:
    """Check a name by Kafka's rules, which make it safe as part of a directory's name."""
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"a topic name has 1 to {NAME_LENGTH_MAX} characters, this one has {len(name)}"
        )
    if _LEGAL.fullmatch(name) is None:
        raise InvalidTopic(
            f"topic name {name!r} has a character that is not one of a-z, A-Z, 0-9, '.', '_', '-'"
        )
    if name in (".", ".."):
        raise InvalidTopic(f"a topic may not be called {name!r}")
    if name in RESERVED:
        raise InvalidTopic(f"the topic name {name} belongs to the controller")
    if name in INTERNAL_TOPICS:
        raise InvalidTopic(f"topic {name} is internal: the cluster makes it by itself")


def decide_create_topic(
    state: ControllerState,
    wish: NewTopic,
    *,
    defaults: TopicDefaults,
    topic_id: TopicId,
    validate_only: bool,
) -> Decision[CreatedTopic]:
    """Create a topic; `topic_id` is fresh and random. Raises the error of an invalid request."""
    check_topic_name(wish.name)
    return decide_new_topic(
        state, wish, defaults=defaults, topic_id=topic_id, validate_only=validate_only
    )


def decide_new_topic(
    state: ControllerState,
    wish: NewTopic,
    *,
    defaults: TopicDefaults,
    topic_id: TopicId,
    validate_only: bool,
) -> Decision[CreatedTopic]:
    """Create a topic whose name was checked."""
    if wish.name in state.topic_ids:
        raise TopicAlreadyExists(f"topic {wish.name} exists")
    configs = dict(wish.configs)
    if len(configs) != len(wish.configs):
        raise InvalidConfig(f"topic {wish.name}: a configuration key is given twice")
    check_topic_configs(configs)
    if wish.assignments:
        assignments = _checked_assignments(state, wish)
    else:
        assignments = _automatic_assignments(state, wish, defaults)
    check_room(state, f"topic {wish.name}", each_counted(assignments))
    created = CreatedTopic(wish.name, topic_id, len(assignments), len(assignments[0]))
    if validate_only:
        return Decision((), answer=created)
    assert topic_id not in state.topics, topic_id
    records: list[AnyRecord] = [TopicRecord(name=wish.name, topic_id=topic_id)]
    records += [
        ConfigRecord(topic_id=topic_id, key=key, value=value) for key, value in wish.configs
    ]
    records += [
        new_partition(state, topic_id, index, replicas)
        for index, replicas in enumerate(assignments)
    ]
    return Decision(records, answer=created)


def new_partition(
    state: ControllerState, topic_id: TopicId, index: int, replicas: tuple[BrokerId, ...]
) -> PartitionRecord:
    """The record of a new partition. Its live replicas are in sync, because it has no
    records yet.
    """
    isr = tuple(b for b in replicas if state.brokers[b].eligible)
    return PartitionRecord(
        topic_id=topic_id,
        partition=index,
        replicas=replicas,
        directories=tuple(state.brokers[b].directory_id for b in replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )


def _automatic_assignments(
    state: ControllerState, wish: NewTopic, defaults: TopicDefaults
) -> list[tuple[BrokerId, ...]]:
    partitions = defaults.partitions if wish.partitions == -1 else wish.partitions
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPartitions(
            f"topic {wish.name}: {partitions} partitions asked for, possible are 1 to "
            f"{PARTITIONS_MAX}"
        )
    factor = wish.replication_factor
    if factor == -1:
        factor = defaults.replication_factor
    if factor < 1:
        raise InvalidReplicationFactor(f"topic {wish.name}: replication factor {factor} is below 1")
    return assign(
        candidates_for(state, wish.name, factor),
        partitions=partitions,
        replication_factor=factor,
        cluster=state.index.load.copy(),
    )


def candidates_for(state: ControllerState, topic: str, factor: int) -> list[Candidate]:
    """Brokers that may hold new replicas. Raises InvalidReplicationFactor if there are fewer than
    `factor`.
    """
    candidates = [
        Candidate(b.broker_id, b.rack) for b in state.brokers.values() if b.takes_replicas
    ]
    if factor > len(candidates):
        raise InvalidReplicationFactor(
            f"topic {topic}: replication factor {factor} is more than the {len(candidates)} "
            "live brokers that take new replicas: "
            "start more brokers or ask for fewer replicas"
        )
    return candidates


def _checked_assignments(state: ControllerState, wish: NewTopic) -> list[tuple[BrokerId, ...]]:
    if wish.partitions != -1 or wish.replication_factor != -1:
        raise InvalidRequest(
            f"topic {wish.name}: replicas are assigned by hand, so the numbers of partitions and "
            "replicas must be -1"
        )
    by_index = dict(wish.assignments)
    count = len(wish.assignments)
    if sorted(by_index) != list(range(count)) or count > PARTITIONS_MAX:
        raise InvalidReplicaAssignment(
            f"topic {wish.name}: the assigned partitions are not 0 to {count - 1}, each once"
        )
    assignments = [by_index[index] for index in range(count)]
    for index, replicas in enumerate(assignments):
        check_replicas(state, f"{wish.name}:{index}", replicas, len(assignments[0]))
    return assignments


def check_replicas(
    state: ControllerState, where: str, replicas: Sequence[BrokerId], factor: int
) -> None:
    """Check manually assigned replicas of one new partition. Raises InvalidReplicaAssignment."""
    if not replicas or len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignment(f"{where}: {list(replicas)} is empty or repeats a broker")
    if len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"{where}: has {len(replicas)} replicas, partition 0 has {factor}; all must have as "
            "many"
        )
    for broker_id in replicas:
        if broker_id not in state.brokers:
            raise InvalidReplicaAssignment(f"{where}: broker {broker_id} is not registered")
        if state.brokers[broker_id].decommissioning:
            raise InvalidReplicaAssignment(
                f"{where}: broker {broker_id} is being decommissioned and takes no new replicas"
            )
    if not any(state.brokers[b].eligible for b in replicas):
        raise InvalidReplicaAssignment(f"{where}: no broker of {list(replicas)} is live")


def decide_delete_topic(
    state: ControllerState, *, name: str, topic_id: bytes
) -> Decision[DeletedTopic]:
    """Delete the topic with that id or, if the id is empty, with that name (I-36)."""
    if topic_id != b"":
        topic = state.topics.get(TopicId(topic_id))
        if topic is None:
            shown = topic_id_text(topic_id)
            raise UnknownTopicId(f"no topic has the id {shown}")
    else:
        by_name = state.topic_ids.get(name)
        if by_name is None:
            raise UnknownTopicOrPartition(f"no topic is called {name!r}")
        topic = state.topics[by_name]
    if topic.name in INTERNAL_TOPICS:
        raise InvalidTopic(f"topic {topic.name} is internal and cannot be deleted")
    record = RemoveTopicRecord(topic_id=topic.topic_id)
    return Decision((record,), answer=DeletedTopic(topic.name, topic.topic_id))
