"""Topics that are read whole: which partitions are taken up, and where."""

from strandline._core.cluster_view import ClusterView
from strandline._core.position import EARLIEST, LATEST, Phase, Position
from strandline._core.whole_topics import WholeTopics
from strandline.types import TopicPartition
from strandline_proto.v1 import metadata_pb2

ID, OTHER = b"a" * 16, b"b" * 16


def tell(view: ClusterView, name: str, topic_id: bytes, partitions: int, offset: int) -> None:
    answer = metadata_pb2.MetadataResponse(metadata_offset=offset)
    topic = answer.topics.add(name=name, topic_id=topic_id)
    for index in range(partitions):
        topic.partitions.add(index=index, leader=1, leader_epoch=0)
    view.apply(answer)


def test_added_partitions_are_read_from_their_beginning_whatever_the_policy() -> None:
    view, whole = ClusterView(), WholeTopics()
    known = {TopicPartition("t", 0)}
    whole.follow([Position(TopicPartition("t", 0), ID, LATEST)])
    tell(view, "t", ID, 1, 1)
    tell(view, "u", OTHER, 5, 1)
    assert whole.added(view, known, LATEST) == {}
    tell(view, "t", ID, 3, 2)
    added = whole.added(view, known, LATEST)
    assert list(added) == [TopicPartition("t", 1), TopicPartition("t", 2)]
    for position in added.values():
        assert (position.phase, position.reset_to) == (Phase.RESETTING, EARLIEST)
        assert (position.topic_id, position.policy) == (ID, LATEST)


def test_a_topic_that_was_created_anew_is_not_taken_up() -> None:
    view, whole = ClusterView(), WholeTopics()
    known = {TopicPartition("t", 0)}
    whole.follow([Position(TopicPartition("t", 0), ID, None)])
    tell(view, "t", ID, 1, 1)
    tell(view, "t", OTHER, 3, 2)
    assert whole.added(view, known, None) == {}


def test_what_is_followed_no_more_is_not_taken_up() -> None:
    view, whole = ClusterView(), WholeTopics()
    whole.follow([Position(TopicPartition("t", 0), ID, None)])
    tell(view, "t", ID, 3, 1)
    whole.follow(())
    assert whole.added(view, set(), None) == {}
