"""What a broker's answer to a push makes the controller decide: elect around it, or elect it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.push_answer import LogEnd
from strandline_broker.hosts.controller.push_answers import PushAnswers
from strandline_broker.rpc.cluster.push_codec import answer_from_wire
from strandline_proto.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    StaleControllerEpoch,
    ThrottlingQuotaExceeded,
)
from strandline_proto.ids import NO_LEADER, MetadataOffset, TopicId
from strandline_proto.v1 import push_pb2
from strandline_runtime.real import real_runtime
from support.controller_cluster import B1, B2, STORE, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from strandline_broker.core.controller.brokers.registration import StoreMismatch
    from strandline_broker.core.controller.log.decision import Decision
    from strandline_broker.core.controller.log.state import Broker

    Answer = push_pb2.LeaderAndIsrResponse


class Asked:
    """A controller in memory; what an answer makes it decide is decided at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.applied: list[tuple[int, int]] = []
        self.mismatches: list[StoreMismatch] = []
        self.refusals = 0
        """So many decisions find the pipeline full."""
        self.late: list[Coroutine[Any, Any, None]] | None = None
        """What has not had its turn; None: everything has one at once."""
        self.is_writing: Callable[[], None] = lambda: None
        """Called when a decision is taken, and not durable."""
        self.ends = LogEnds()
        self.heard = Applied()
        for broker in cluster.state.brokers.values():
            self.heard.on_registered(broker.broker_id, broker.epoch)
        self.answers = PushAnswers(
            real_runtime("controller"),
            cluster.state,
            submit=self._submit,
            store_id=STORE,
            spawn=self._spawn,
            on_applied=self._on_applied,
            applied=self.heard,
            refuse_to_run=self.mismatches.append,
            ends=self.ends,
        )

    async def _submit(self, decide: Callable[[], Decision[bool]]) -> bool:
        if self.refusals > 0:
            self.refusals -= 1
            raise ThrottlingQuotaExceeded("try again later")
        decision = decide()
        self.is_writing()
        return self.cluster.commit(decision)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self.late is None:
            asyncio.run(work)
        else:
            self.late.append(work)

    def _on_applied(self, broker: Broker, offset: MetadataOffset) -> None:
        self.applied.append((broker.broker_id, offset))

    def answer(self, *, full: bool, back: int = 0, **fields: Any) -> None:
        """Broker 1 answers the envelope at the log's end, or `back` before it."""
        state = self.cluster.state
        offset = state.last_offset - back
        answer = push_pb2.LeaderAndIsrResponse(
            store_id=STORE,
            controller_epoch=state.controller_epoch,
            metadata_offset=offset,
            applied_metadata_offset=offset,
            **fields,
        )
        self.answers.on_answer(state.brokers[B1], answer_from_wire(answer), full=full)


def cannot_apply(topic_id: TopicId, error_code: int) -> list[push_pb2.LeaderAndIsrTopicResult]:
    failed = push_pb2.LeaderAndIsrPartitionResult(partition_index=0, error_code=error_code)
    return [push_pb2.LeaderAndIsrTopicResult(topic_id=topic_id, partitions=[failed])]


@pytest.fixture
def asked() -> Asked:
    """Broker 1 alone is in the ISR of its topic, and nobody is eligible beside it."""
    cluster = Cluster([B1, B2], min_insync=1)
    cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    cluster.unfence(B2)
    return Asked(cluster)


def topic_of(asked: Asked) -> TopicId:
    (partition,) = asked.cluster.state.partitions()
    assert (*partition.isr, *partition.elr) == (B1,)
    return partition.topic_id


def leader_of(asked: Asked) -> int:
    return asked.cluster.partition(topic_of(asked)).leader


def test_a_last_member_leads_again_once_it_has_applied_a_snapshot(asked: Asked) -> None:
    """I-88: it was unfenced all the time, so no unfencing elects it."""
    topic = topic_of(asked)
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    assert leader_of(asked) == NO_LEADER
    asked.answer(full=False)
    assert leader_of(asked) == NO_LEADER, "an election at once would fail at once, and so on"
    asked.answer(full=True)
    assert leader_of(asked) == B1
    before = len(asked.cluster.envelopes)
    asked.answer(full=True)
    assert len(asked.cluster.envelopes) == before, "there is nothing to elect"


def test_what_finds_the_pipeline_full_is_decided_all_the_same(asked: Asked) -> None:
    """I-88, I-94: a broker whose disk hangs names all its replicas, and says no more."""
    topic = topic_of(asked)
    asked.refusals = 2
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    assert leader_of(asked) == NO_LEADER
    asked.refusals = 1
    asked.answer(full=True)
    assert leader_of(asked) == B1


def test_a_broker_that_comes_to_its_role_while_a_decision_waits_is_not_elected_around(
    asked: Asked,
) -> None:
    topic = topic_of(asked)
    asked.late = []
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    (waiting,) = asked.late
    asked.late = None
    asked.answer(full=True)
    asyncio.run(waiting)
    assert leader_of(asked) == B1


def test_what_the_broker_could_not_apply_of_the_snapshot_it_does_not_lead(asked: Asked) -> None:
    topic = topic_of(asked)
    asked.answer(full=True, topics=cannot_apply(topic, KafkaStorageError.code))
    assert leader_of(asked) == NO_LEADER
    asked.answer(full=True, topics=cannot_apply(topic, KafkaStorageError.code))
    assert leader_of(asked) == NO_LEADER


def test_who_is_elected_around_while_it_applies_a_snapshot_leads_again(asked: Asked) -> None:
    """I-88: it comes to its late role at once, and has no reason to ask for another snapshot."""
    topic = topic_of(asked)
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    assert leader_of(asked) == NO_LEADER
    asked.answer(full=True, back=1)
    assert leader_of(asked) == B1


def test_who_comes_to_its_role_while_a_decision_is_written_leads_again(asked: Asked) -> None:
    """I-82, I-88: until it is durable the state says that it leads."""
    topic = topic_of(asked)
    asked.late = []
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    (around,) = asked.late
    asked.is_writing = lambda: asked.answer(full=True)
    asyncio.run(around)
    assert leader_of(asked) == NO_LEADER
    asked.is_writing = lambda: None
    asyncio.run(asked.late.pop())
    assert leader_of(asked) == B1


def test_a_snapshot_that_was_not_applied_elects_nobody(asked: Asked) -> None:
    topic = topic_of(asked)
    asked.answer(full=False, topics=cannot_apply(topic, KafkaStorageError.code))
    asked.answer(full=True, error_code=StaleControllerEpoch.code)
    asked.answer(full=True, want_full=True)
    assert leader_of(asked) == NO_LEADER


def test_a_fenced_broker_leads_nothing_by_a_snapshot(asked: Asked) -> None:
    asked.cluster.fence(B1)
    asked.answer(full=True)
    assert leader_of(asked) == NO_LEADER


def test_a_broker_says_where_its_log_ends_without_a_leader(asked: Asked) -> None:
    """I-53: words of another leader epoch, or of another life, say nothing."""
    cluster, topic = asked.cluster, topic_of(asked)
    cluster.fence(B1)
    epoch = cluster.partition(topic).leader_epoch

    def tell(leader_epoch: int, log_end_offset: int, index: int = 0) -> LogEnd | None:
        end = push_pb2.LogEnd(
            topic_id=topic,
            partition_index=index,
            leader_epoch=leader_epoch,
            last_epoch=4,
            log_end_offset=log_end_offset,
        )
        asked.answer(full=False, log_ends=[end])
        return asked.ends.of(cluster.partition(topic), cluster.state.brokers[B1])

    assert tell(epoch - 1, 7) is None
    assert tell(epoch, 7, index=9) is None
    assert tell(epoch, 8) == LogEnd(4, 8)
    cluster.register(B1)
    assert asked.ends.of(cluster.partition(topic), cluster.state.brokers[B1]) is None


def test_only_what_says_that_the_replica_is_unfit_elects_around_it(asked: Asked) -> None:
    """P-79."""
    topic = topic_of(asked)
    asked.answer(full=False, topics=cannot_apply(topic, NotEnoughReplicas.code))
    assert leader_of(asked) == B1
    assert asked.applied == [(B1, asked.cluster.state.last_offset)]


def test_a_broker_that_remembers_more_than_there_is_stops_the_controller(asked: Asked) -> None:
    """P-76."""
    asked.answer(full=False, back=-5)
    assert len(asked.mismatches) == 1


def test_a_leader_has_applied_a_change_when_it_has_answered_for_it(asked: Asked) -> None:
    """I-53: but not where it names the partition, until it has applied a snapshot of it."""
    topic = topic_of(asked)

    def heard() -> bool:
        return asked.heard.by_leader_of(asked.cluster.partition(topic))

    assert not heard()
    asked.answer(full=False, back=asked.cluster.state.last_offset)
    assert not heard(), "of something else"
    asked.answer(full=False, error_code=StaleControllerEpoch.code)
    asked.answer(full=True, want_full=True)
    assert not heard(), "it has refused"
    asked.answer(full=False, topics=cannot_apply(topic, NotEnoughReplicas.code))
    asked.answer(full=False)
    assert not heard(), "of all but this partition"
    asked.answer(full=True, topics=cannot_apply(topic, NotEnoughReplicas.code))
    assert not heard()
    asked.answer(full=True)
    assert heard()
    broker = asked.cluster.state.brokers[B1]
    asked.heard.on_registered(B1, broker.epoch)
    assert not heard(), "a new process has applied nothing"
