"""What a watcher sees of the controller's decisions and of the brokers' sessions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.news import Election, TopicNews
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.controller.commit_news import CommitNews
from strandline_broker.hosts.watch.controller import ControllerSource
from strandline_broker.hosts.watch.selection import ALL, Selection
from support.controller_cluster import B1, B2, B3, Cluster
from support.hand_clock import HandClock
from support.watching import looked


def source_of(cluster: Cluster) -> ControllerSource:
    clock = HandClock()
    controller: Any = SimpleNamespace(
        state=cluster.state,
        sessions=cluster.sessions,
        applied=Applied(),
        events=Events(clock),
        identity=SimpleNamespace(cluster_id="c", node_id=100),
        now_ms=lambda: int(clock.monotonic() * 1000),
    )
    return ControllerSource(clock, controller)


def test_a_first_look_has_everything_and_the_next_one_nothing() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2, B3), (B2, B3, B1))
    source = source_of(cluster)
    view = source.view(ALL)
    first = looked(view)
    assert [broker.broker_id for broker in first.brokers] == [B1, B2, B3]
    assert all(broker.registration and broker.session for broker in first.brokers)
    assert [(p.topic, p.registration.index, p.min_insync_replicas) for p in first.partitions] == [
        ("t", 0, 2),
        ("t", 1, 2),
    ]
    assert first.controller is not None
    assert looked(view).size == 0
    assert source.identity().incarnation_id == "controller-epoch-1"


def test_a_decision_adds_what_it_has_changed() -> None:
    cluster = Cluster([B1, B2, B3])
    topic_id = cluster.topic("t", (B2, B3, B1), (B1, B3, B2))
    view = source_of(cluster).view(ALL)
    looked(view)
    cluster.fence(B2)
    content = looked(view)
    assert [(p.registration.index, p.registration.leader) for p in content.partitions] == [
        (0, B3),
        (1, B1),
    ]
    assert content.partitions[0].registration is cluster.partition(topic_id)
    (broker,) = content.brokers
    assert broker.registration is not None
    assert (broker.broker_id, broker.registration.fenced) == (B2, True)
    cluster.alter("t", {"min.insync.replicas": "1"}, topic="t")
    assert [p.min_insync_replicas for p in looked(view).partitions] == [1, 1]


def test_a_heartbeat_adds_the_session_alone() -> None:
    cluster = Cluster([B1, B2])
    view = source_of(cluster).view(ALL)
    looked(view)
    cluster.sessions.on_heard(B2, cluster.state.brokers[B2].epoch, 5_000)
    (broker,) = looked(view).brokers
    assert (broker.broker_id, broker.registration) == (B2, None)
    assert broker.session is not None
    assert broker.session.last_heartbeat_ms == 5_000
    assert broker.session.applied_offset is None


def test_a_selection_leaves_other_topics_out() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), (B2, B1))
    cluster.topic("other", (B1, B2))
    view = source_of(cluster).view(Selection({"t": frozenset([1])}))
    assert [(p.topic, p.registration.index) for p in looked(view).partitions] == [("t", 1)]
    assert view.has(TopicNews("t", b"", deleted=False))
    assert not view.has(TopicNews("other", b"", deleted=False))


def test_events_of_decisions_are_made_for_watchers_alone() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B2, B3, B1))
    events = Events(HandClock())
    news = CommitNews(events, cluster.state)
    assert not news._partitions, "nothing is kept without a watcher"
    events.watched()
    before = cluster.state.last_offset
    cluster.fence(B2)
    records: Any = cluster.replayed_records(before + 1)
    news.on_commit(records)
    found = [event.what for event in events.since(0, 99)[1]]
    (election,) = [each for each in found if isinstance(each, Election)]
    assert election.former is not None
    assert (election.former.leader, election.now.leader) == (B2, B3)
    events.unwatched()
    assert not news._partitions
