"""Creation of the coordinators' topics: that of the groups and that of the transactions. The
controller creates each once as many brokers live as it needs replicas.

The number of its partitions never changes: it determines which of them coordinates a group or a
transactional id. The records of a coordinator's decision are one batch (I-107), so batches may be
large.
"""

from dataclasses import dataclass
from typing import Final

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.topics.topics import (
    CreatedTopic,
    NewTopic,
    TopicDefaults,
    decide_new_topic,
)
from strandline_proto.ids import TopicId

MAX_MESSAGE_BYTES: Final = 10 << 20
MIN_INSYNC_REPLICAS: Final = 2


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One of these topics as configured."""

    name: str
    partitions: int
    replication_factor: int
    segment_bytes: int
    min_insync_replicas: int = MIN_INSYNC_REPLICAS
    """The minimum of replicas in sync, but no more than there are replicas."""

    @property
    def configs(self) -> tuple[tuple[str, str], ...]:
        minimum = min(self.min_insync_replicas, self.replication_factor)
        return (
            ("cleanup.policy", "compact"),
            ("max.message.bytes", str(MAX_MESSAGE_BYTES)),
            ("min.insync.replicas", str(minimum)),
            ("segment.bytes", str(self.segment_bytes)),
            ("unclean.leader.election.enable", "false"),
        )


def exists(state: ControllerState, wanted: InternalTopic) -> bool:
    return wanted.name in state.topic_ids


def can_be_made(state: ControllerState, wanted: InternalTopic) -> bool:
    """True if enough brokers live for all its replicas."""
    live = sum(broker.takes_replicas for broker in state.brokers.values())
    return live >= wanted.replication_factor


def decide_internal_topic(
    state: ControllerState, wanted: InternalTopic, *, topic_id: TopicId
) -> Decision[CreatedTopic | None]:
    """Create the topic; the answer is None if it exists, or cannot be created now. `topic_id` is
    fresh and random.
    """
    if exists(state, wanted) or not can_be_made(state, wanted):
        return Decision((), answer=None)
    wish = NewTopic(wanted.name, wanted.partitions, wanted.replication_factor, (), wanted.configs)
    defaults = TopicDefaults(wanted.partitions, wanted.replication_factor)
    made = decide_new_topic(state, wish, defaults=defaults, topic_id=topic_id, validate_only=False)
    return Decision(made.records, answer=made.answer)
