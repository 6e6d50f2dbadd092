"""A client's view of the cluster only goes forward."""

from __future__ import annotations

import pytest

from strandline._core.cluster_view import ClusterView
from strandline_proto.errors import InconsistentClusterId
from strandline_proto.v1 import metadata_pb2

ID, OTHER = b"a" * 16, b"b" * 16


def answer(
    *,
    offset: int,
    leader: int = 1,
    epoch: int = 0,
    topic_id: bytes = ID,
    code: int = 0,
    cluster: str = "c",
    brokers: tuple[int, ...] = (1, 2),
    topic: str | None = "t",
) -> metadata_pb2.MetadataResponse:
    response = metadata_pb2.MetadataResponse(cluster_id=cluster, metadata_offset=offset)
    for broker in brokers:
        response.brokers.add(node_id=broker, host="h", port=9000 + broker)
    if topic is not None:
        described = response.topics.add(name=topic, topic_id=topic_id, error_code=code)
        if code == 0:
            described.partitions.add(index=0, leader=leader, leader_epoch=epoch)
    return response


def test_a_leader_of_an_older_epoch_is_ignored() -> None:
    view = ClusterView()
    assert view.apply(answer(offset=5, leader=1, epoch=3)).moved == [(ID, 0)]
    assert view.apply(answer(offset=9, leader=2, epoch=2)).moved == []
    assert view.leader(ID, 0) == (1, 3)


def test_in_one_epoch_the_answer_that_knows_more_counts() -> None:
    view = ClusterView()
    view.apply(answer(offset=5, leader=-1, epoch=3))
    assert view.leader(ID, 0) is None
    view.apply(answer(offset=4, leader=1, epoch=3))
    assert view.leader(ID, 0) is None
    assert view.apply(answer(offset=6, leader=1, epoch=3)).moved == [(ID, 0)]
    assert view.leader(ID, 0) == (1, 3)


def test_a_topic_created_anew_replaces_the_old_one_only_by_a_newer_answer() -> None:
    view = ClusterView()
    view.apply(answer(offset=5, epoch=7))
    assert view.apply(answer(offset=5, topic_id=OTHER)).gone == []
    assert view.apply(answer(offset=4, topic_id=OTHER)).gone == []
    changes = view.apply(answer(offset=6, topic_id=OTHER))
    assert changes.gone == [ID]
    assert changes.moved == [(OTHER, 0)]
    assert view.topics["t"].topic_id == OTHER
    assert ID not in view.by_id


def test_a_lagging_broker_cannot_make_a_topic_disappear() -> None:
    view = ClusterView()
    view.apply(answer(offset=5))
    assert view.apply(answer(offset=5, code=3)).gone == []
    assert "t" in view.topics
    changes = view.apply(answer(offset=6, code=3))
    assert changes.gone == [ID]
    assert changes.unknown == ["t"]
    assert view.leader(ID, 0) is None


def test_a_topic_that_nobody_knew_is_reported_unknown_and_other_errors_by_code() -> None:
    view = ClusterView()
    assert view.apply(answer(offset=1, code=3)).unknown == ["t"]
    assert view.apply(answer(offset=1, code=17)).errors == {"t": 17}


def test_a_hint_counts_only_if_it_is_newer_and_names_a_known_broker() -> None:
    view = ClusterView()
    view.apply(answer(offset=5, leader=1, epoch=3))
    assert not view.hint(ID, 0, leader=2, leader_epoch=3)
    assert not view.hint(ID, 0, leader=77, leader_epoch=4)
    assert not view.hint(OTHER, 0, leader=2, leader_epoch=4)
    assert view.hint(ID, 0, leader=2, leader_epoch=4)
    assert view.leader(ID, 0) == (2, 4)


def test_a_reader_never_asks_a_leader_older_than_what_it_has_read() -> None:
    view = ClusterView()
    view.apply(answer(offset=5, leader=1, epoch=3))
    view.require_epoch(ID, 0, 4)
    assert view.leader(ID, 0) is None
    view.require_epoch(ID, 0, 2)
    assert view.leader(ID, 0) is None
    view.apply(answer(offset=6, leader=2, epoch=4))
    assert view.leader(ID, 0) == (2, 4)


def test_what_has_been_read_is_known_before_the_partition_is() -> None:
    """A group grants what was added since this client has heard of the topic."""
    view = ClusterView()
    view.apply(answer(offset=4, leader=1, epoch=3))
    view.require_epoch(ID, 1, 4)
    for offset, epoch in ((5, 3), (6, 4)):
        added = answer(offset=offset, epoch=3)
        added.topics[0].partitions.add(index=1, leader=2, leader_epoch=epoch)
        view.apply(added)
        assert view.leader(ID, 1) == ((2, 4) if epoch == 4 else None)
    assert view.leader(ID, 0) == (1, 3)


def test_brokers_are_replaced_by_a_newer_answer_and_added_by_an_older_one() -> None:
    view = ClusterView()
    view.apply(answer(offset=5, brokers=(1, 2)))
    view.apply(answer(offset=4, brokers=(2, 3)))
    assert sorted(view.brokers) == [1, 2, 3]
    view.apply(answer(offset=6, brokers=(2,)))
    assert sorted(view.brokers) == [2]
    view.apply(answer(offset=7, brokers=()))
    assert sorted(view.brokers) == [2], "an answer without brokers tells nothing"


def test_another_clusters_answer_is_refused() -> None:
    view = ClusterView()
    view.apply(answer(offset=1))
    with pytest.raises(InconsistentClusterId, match="cluster d answered a client of cluster c"):
        view.apply(answer(offset=2, cluster="d"))
