"""The events of the controller's decisions: elections with their reasons, ISR changes, brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.controller.news import (
    BrokerNews,
    BrokerStep,
    Election,
    ElectionReason,
    Former,
    IsrChange,
    News,
    Reassignment,
    ReassignmentStep,
    TopicNews,
    news_of,
)
from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from support.controller_cluster import B1, B2, B3, Cluster

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.decision import Decision
    from strandline_broker.core.controller.log.records import AnyRecord


class Watched(Cluster):
    """A controller's state, with the events of its last decision."""

    news: tuple[News, ...] = ()

    def commit(self, decision: Decision) -> object:  # type: ignore[override,type-arg]
        records: tuple[AnyRecord, ...] = tuple(decision.records)
        former = Former(
            {t.topic_id: t.name for t in self.state.topics.values()},
            {(p.topic_id, p.index): p for p in self.state.partitions()},
        )
        answer = super().commit(decision)
        fenced_for = {B2: "its session ended"}
        self.news = tuple(news_of(records, former, self.state, fenced_for))
        return answer


def elections(cluster: Watched) -> list[tuple[int, int, ElectionReason, int | None]]:
    return [
        (-1 if e.former is None else e.former.leader, e.now.leader, e.reason, e.broker_id)
        for e in cluster.news
        if isinstance(e, Election)
    ]


def test_a_topic_and_its_first_leaders() -> None:
    cluster = Watched([B1, B2, B3])
    topic_id = cluster.topic("t", (B1, B2, B3), (B2, B3, B1))
    assert TopicNews("t", topic_id, deleted=False) in cluster.news
    assert elections(cluster) == [
        (-1, B1, ElectionReason.TOPIC_CREATED, None),
        (-1, B2, ElectionReason.TOPIC_CREATED, None),
    ]


def test_a_fence_elects_and_takes_the_broker_out_of_the_isr() -> None:
    cluster = Watched([B1, B2, B3])
    topic_id = cluster.topic("t", (B2, B3, B1))
    epoch = cluster.state.brokers[B2].epoch
    cluster.fence(B2)
    assert BrokerNews(B2, BrokerStep.FENCED, epoch, "its session ended") in cluster.news
    assert elections(cluster) == [(B2, B3, ElectionReason.BROKER_FENCED, B2)]
    (change,) = [news for news in cluster.news if isinstance(news, IsrChange)]
    assert (change.topic, change.former.isr, change.now.isr) == ("t", (B2, B3, B1), (B3, B1))
    assert change.now is cluster.partition(topic_id)


def test_a_new_incarnation_registers_and_is_unfenced() -> None:
    cluster = Watched([B1, B2])
    epoch = cluster.register(B2)
    (registered,) = [n for n in cluster.news if isinstance(n, BrokerNews)]
    assert (registered.step, registered.broker_epoch) == (BrokerStep.REGISTERED, epoch)
    cluster.unfence(B2)
    assert BrokerNews(B2, BrokerStep.UNFENCED, epoch, "") in cluster.news


def test_a_controlled_shutdown_is_the_reason_of_its_elections() -> None:
    cluster = Watched([B1, B2, B3])
    cluster.topic("t", (B2, B3, B1))
    cluster.shut_down(B2)
    assert elections(cluster) == [(B2, B3, ElectionReason.CONTROLLED_SHUTDOWN, B2)]
    steps = [news.step for news in cluster.news if isinstance(news, BrokerNews)]
    assert steps == [BrokerStep.CONTROLLED_SHUTDOWN]


def test_a_reassignment_begins_and_ends() -> None:
    cluster = Watched([B1, B2, B3])
    cluster.topic("t", (B1, B2))
    cluster.commit(decide_reassignments(cluster.state, [Wish("t", 0, (B1, B3))]))
    (begun,) = [news for news in cluster.news if isinstance(news, Reassignment)]
    assert (begun.step, begun.now.adding, begun.now.removing) == (
        ReassignmentStep.BEGUN,
        (B3,),
        (B2,),
    )
    cluster.commit(decide_reassignments(cluster.state, [Wish("t", 0, None)]))
    (ended,) = [news for news in cluster.news if isinstance(news, Reassignment)]
    assert ended.step is ReassignmentStep.ENDED
