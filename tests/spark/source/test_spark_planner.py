"""Which offsets a query reads. The numbers in brackets are the traps of Spark's source API."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proto.errors import NotLeaderOrFollower, OffsetNotAvailable, TopicAlreadyExists
from strandline_spark.cluster import cluster as cluster_module
from strandline_spark.cluster.cluster import Cluster, Mark
from strandline_spark.cluster.offsets import StreamOffset, TopicPartition, to_json
from strandline_spark.data_source import StrandlineStreamReader
from strandline_spark.errors import ClusterUnreachable, OptionError, UnknownTopic
from strandline_spark.source import planner as planner_module
from strandline_spark.source.group_progress import GroupProgress
from strandline_spark.source.options import parse_options
from strandline_spark.source.planner import Planner
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from support.fake_broker_sync import FakeBroker, FakePartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(partition: FakePartition, count: int) -> None:
    for _ in range(count // 10):
        partition.append([(b"k", b"v")] * 10)


def engine(broker: FakeBroker, **more: str) -> EngineOfSpark:
    return EngineOfSpark(broker.address, **{"startingOffsets": "earliest"} | more)


def new_planner(broker: FakeBroker, **more: str) -> Planner:
    return Planner(parse_options({"bootstrap.servers": broker.address, "subscribe": "t"} | more))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "TRAILING_SECONDS", 0.2)


def test_the_initial_offset_stays_what_it_was_at_the_first_call(broker: FakeBroker) -> None:
    """(1) Spark asks twice before the first batch; live traffic must not move it."""
    (partition,) = broker.create("t").partitions
    fill(partition, 20)
    planner = new_planner(broker)
    assert planner.initial().ends == {T0: 20}
    fill(partition, 10)
    assert planner.initial().ends == {T0: 20}
    assert planner.latest(planner.initial(), None).ends == {T0: 30}


@pytest.mark.parametrize("arrives", [True, False])
def test_a_crash_in_the_first_batch_loses_nothing_of_a_stream_from_latest(
    broker: FakeBroker, arrives: bool
) -> None:
    """(2) Spark asks for the initial offset again then, and `latest` has moved."""
    (partition,) = broker.create("t").partitions
    fill(partition, 20)
    stream = engine(broker, startingOffsets="latest")
    stream.reader.initialOffset()
    if arrives:
        fill(partition, 10)
    # The first batch is made even if there is nothing yet, for it says where the stream began.
    assert stream.plan()
    assert stream.lineage["t"]["starts"] == {"0": 20}
    fill(partition, 20)
    assert stream.restart() == ([(0, 20, 30)] if arrives else [])
    following = 30 if arrives else 20
    assert stream.trigger() == [(0, following, following + 20)]
    assert "starts" not in stream.lineage["t"]
    assert stream.trigger() is None


def test_where_the_stream_began_is_not_read_again_of_a_partition_that_stays(
    broker: FakeBroker,
) -> None:
    topic = broker.create("t", 2)
    fill(topic.partitions[0], 20)
    stream = engine(broker)
    assert stream.trigger() == [(0, 0, 20)]
    fill(topic.partitions[1], 10)
    assert stream.trigger() == [(1, 0, 10)]


def test_offsets_come_out_sorted_by_topic_and_partition_number(broker: FakeBroker) -> None:
    """(3) Spark compares them as text."""
    broker.create("t", 11)
    broker.create("a", 1)
    options = {"bootstrap.servers": broker.address, "subscribe": "t,a"}
    first = StrandlineStreamReader(parse_options(options)).initialOffset()
    assert list(first) == ["a", "t", "@lineage"]
    assert list(first["t"]) == [str(n) for n in range(11)]
    assert list(first["@lineage"]) == ["a", "t"]


def test_available_now_ends_at_its_target_under_a_limit_and_ignores_later_data(
    broker: FakeBroker,
) -> None:
    """(4)"""
    topic = broker.create("t", 1)
    fill(topic.partitions[0], 20)
    stream = engine(broker)
    stream.trigger()
    fill(topic.partitions[0], 30)
    stream.available_now()
    fill(topic.partitions[0], 50)
    topic.partitions.append(type(topic.partitions[0])())
    fill(topic.partitions[1], 10)
    assert stream.trigger(20) == [(0, 20, 40)]
    assert stream.trigger(20) == [(0, 40, 50)]
    assert stream.trigger(20) is None
    stream.available_now()
    assert stream.trigger() == [(0, 50, 100), (1, 0, 10)]


def test_available_now_on_a_restart_beyond_its_target_ends_at_once(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    stream = engine(broker)
    stream.trigger()
    partition.held_back = 20
    stream.available_now()
    partition.held_back = 0
    assert stream.trigger() is None


def test_available_now_reads_nothing_of_a_topic_that_came_after_its_target(
    broker: FakeBroker,
) -> None:
    fill(broker.create("t").partitions[0], 50)
    stream = engine(broker, failOnDataLoss="false")
    stream.trigger()
    stream.available_now()
    fill(broker.create("t").partitions[0], 100)
    assert stream.trigger() == []
    assert stream.trigger() is None
    stream.available_now()
    assert stream.trigger() == [(0, 0, 100)]


def test_a_trailing_high_watermark_never_moves_the_end_below_the_start(
    broker: FakeBroker,
) -> None:
    """(5) The new leader's watermark trails its log for a while: nothing new, and no alarm."""
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    stream = engine(broker)
    stream.trigger()
    partition.held_back = 30
    assert stream.trigger() is None
    partition.held_back = 0
    fill(partition, 10)
    assert stream.trigger() == [(0, 50, 60)]


def test_an_election_without_new_records_makes_no_batch_and_is_asked_about_once(
    broker: FakeBroker,
) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    stream = engine(broker)
    stream.trigger()
    partition.elect()
    for _ in range(3):
        assert stream.trigger() is None
    assert broker.calls.count("OffsetsForLeaderEpoch") == 1
    fill(partition, 10)
    assert stream.trigger() == [(0, 50, 60)]
    assert stream.lineage["t"]["epochs"] == {"0": 1}
    assert stream.trigger() is None
    assert broker.calls.count("OffsetsForLeaderEpoch") == 1
    stream.restart()
    assert stream.trigger() is None
    assert broker.calls.count("OffsetsForLeaderEpoch") == 1


def test_a_group_that_cannot_be_reached_costs_the_stream_nothing_but_a_word(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """This broker has no groups at all."""
    (partition,) = broker.create("t").partitions
    stream = engine(broker, **{"group.id": "g"})
    for n in range(3):
        fill(partition, 10)
        assert stream.trigger() == [(0, 10 * n, 10 * n + 10)]
    told = [record.message for record in caplog.records if record.name.startswith("strandline")]
    assert len(told) == 1
    assert "group g does not show the progress of this query (UNIMPLEMENTED)" in told[0]


def test_a_group_shows_the_topics_that_are_still_there(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator would refuse the whole of an offset commit for one that is gone."""
    shown: list[Any] = []
    monkeypatch.setattr(GroupProgress, "_find", lambda _: "h:1")
    monkeypatch.setattr(
        GroupProgress, "_commit", lambda _, to, offset: shown.append(to_json(offset.ends))
    )
    for name in ("t1", "t2", "t3"):
        fill(broker.create(name).partitions[0], 10)
    options = {"subscribe": "", "subscribePattern": "t.", "failOnDataLoss": "false"}
    stream = engine(broker, **options, **{"group.id": "g"})
    stream.trigger()
    stream.trigger()
    del broker.topics["t1"]
    broker.create("t2")
    stream.trigger()
    assert shown == [{"t1": {"0": 10}, "t2": {"0": 10}, "t3": {"0": 10}}, {"t3": {"0": 10}}]


def test_planning_a_batch_costs_one_metadata_and_one_list_offsets(broker: FakeBroker) -> None:
    topic = broker.create("t", 20)
    stream = engine(broker)
    stream.trigger()
    broker.calls.clear()
    fill(topic.partitions[3], 10)
    assert stream.trigger() == [(3, 0, 10)]
    assert broker.calls == ["Metadata", "ListOffsets"]


def test_the_epoch_of_an_offset_is_the_smallest_that_is_known_to_hold_it(
    broker: FakeBroker,
) -> None:
    """Records of epoch 0 stay of epoch 0 though a limit lets them be read under a later leader."""
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    stream = engine(broker)
    assert stream.trigger(20) == [(0, 0, 20)]
    partition.elect()
    fill(partition, 50)
    assert stream.trigger(20) == [(0, 20, 40)]
    assert stream.lineage["t"]["epochs"] == {"0": 0}
    assert stream.trigger(40) == [(0, 40, 80)]
    assert stream.lineage["t"]["epochs"] == {"0": 1}


def test_a_partition_that_is_new_to_the_query_starts_at_its_first_record(
    broker: FakeBroker,
) -> None:
    topic = broker.create("t", 1)
    fill(topic.partitions[0], 20)
    stream = engine(broker, startingOffsets="latest")
    stream.trigger()
    topic.partitions.append(type(topic.partitions[0])())
    fill(topic.partitions[1], 20)
    assert stream.trigger() == [(1, 0, 20)]
    assert stream.ends == {"t": {"0": 20, "1": 20}}


def test_one_task_reads_one_partition_and_empty_ones_have_none(broker: FakeBroker) -> None:
    topic = broker.create("t", 3)
    fill(topic.partitions[0], 20)
    fill(topic.partitions[2], 30)
    topic.partitions[2].elect()
    stream = engine(broker, startingOffsets='{"t":{"0":5,"1":0,"2":0}}')
    assert stream.plan()
    planned = stream.tasks()
    assert [(one.tp.partition, one.start, one.stop) for one in planned] == [(0, 5, 20), (2, 0, 30)]
    assert {one.topic_id for one in planned} == {topic.topic_id}
    assert planned[1].leader_epoch == 1


def test_a_batch_query_takes_words_and_numbers_for_its_bounds(broker: FakeBroker) -> None:
    topic = broker.create("t", 2)
    for partition in topic.partitions:
        fill(partition, 50)
    planned = new_planner(
        broker, startingOffsets='{"t":{"0":-2,"1":7}}', endingOffsets='{"t":{"0":-1,"1":9}}'
    ).batch_ranges()
    assert [(one.tp, one.start, one.stop) for one in planned] == [(T0, 0, 50), (T1, 7, 9)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": '{"t":{"0":1}}'}, "missing t:1"),
        ({"startingOffsets": '{"t":{"0":1,"1":1,"2":1}}'}, "not read t:2"),
        ({"startingOffsets": '{"t":{"0":1,"1":1}}', "endingOffsets": '{"t":{"0":1,"1":0}}'}, "end"),
        ({"endingOffsets": '{"t":{"0":1,"1":99}}'}, "up to 50 only"),
    ],
)
def test_bounds_that_contradict_the_topic_are_refused(
    broker: FakeBroker, more: dict[str, str], message: str
) -> None:
    for partition in broker.create("t", 2).partitions:
        fill(partition, 50)
    with pytest.raises(OptionError, match=message):
        new_planner(broker, **more).batch_ranges()


def test_a_stream_that_would_start_beyond_the_end_is_refused(broker: FakeBroker) -> None:
    broker.create("t")
    with pytest.raises(OptionError, match="lies beyond"):
        new_planner(broker, startingOffsets='{"t":{"0":9}}').initial()


def test_assigned_partitions_must_exist(broker: FakeBroker) -> None:
    fill(broker.create("t", 2).partitions[1], 10)
    options = {"bootstrap.servers": broker.address, "assign": '{"t":[1]}'}
    assert Planner(parse_options(options)).latest(StreamOffset({}), None).ends == {T1: 10}
    options["assign"] = '{"t":[1,5]}'
    with pytest.raises(UnknownTopic, match="t:5"):
        Planner(parse_options(options)).latest(StreamOffset({}), None)
    with pytest.raises(UnknownTopic, match="t:5"):
        Planner(parse_options(options)).initial()


def test_answers_that_an_election_delays_are_asked_for_again(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 10)
    partition.errors = [NotLeaderOrFollower.code, OffsetNotAvailable.code]
    assert marks_of(broker)[T0].high_watermark == 10


def marks_of(broker: FakeBroker) -> dict[TopicPartition, Mark]:
    cluster = Cluster([broker.address])
    return cluster.marks(cluster.leaders(["t"]))


@pytest.mark.parametrize(
    ("described", "error"), [(1, "FencedLeaderEpoch"), (3, "UnknownLeaderEpoch")]
)
def test_an_offset_is_taken_only_from_the_epoch_that_the_metadata_named(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, described: int, error: str
) -> None:
    (partition,) = broker.create("t").partitions
    partition.leader_epoch, partition.described_epoch = 2, described
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(ClusterUnreachable, match=f"t:0 gave no offset .* {error}"):
        marks_of(broker)
    cluster = Cluster([broker.address])
    with pytest.raises(ClusterUnreachable, match=error):
        cluster.epoch_ends({T0: 0}, cluster.leaders(["t"]))


def test_an_error_that_time_does_not_cure_is_raised_at_once(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    partition.errors = [TopicAlreadyExists.code]
    with pytest.raises(TopicAlreadyExists):
        marks_of(broker)


def test_a_leader_of_an_epoch_below_one_seen_before_is_not_believed(
    broker: FakeBroker,
) -> None:
    """P-82: a deposed leader may serve an older prefix."""
    topic = broker.create("t")
    cluster = Cluster([broker.address])
    cluster.remember_epoch(topic.topic_id, 0, 3)
    with pytest.raises(ClusterUnreachable, match="older leader"):
        cluster.leaders(["t"], patience=0.3)
    topic.partitions[0].leader_epoch = 3
    assert cluster.leaders(["t"])[T0].epoch == 3


def test_the_answer_before_is_not_believed_either_once_a_later_epoch_is_known(
    broker: FakeBroker,
) -> None:
    """Metadata that says the same as before is not read again."""
    topic = broker.create("t")
    cluster = Cluster([broker.address])
    before = cluster.leaders(["t"])
    assert cluster.leaders(["t"]) is before
    cluster.remember_epoch(topic.topic_id, 0, 3)
    with pytest.raises(ClusterUnreachable, match="older leader"):
        cluster.leaders(["t"], patience=0.3)


def test_offsets_are_asked_for_in_the_epochs_of_now(broker: FakeBroker) -> None:
    """ListOffsets is made once for the same leaders, and anew after an election."""
    topic = broker.create("t", 3)
    fill(topic.partitions[1], 20)
    cluster = Cluster([broker.address])
    assert cluster.marks(cluster.leaders(["t"]))[T1][1:] == (0, 20)
    topic.partitions[1].elect()
    topic.partitions[1].log_start = 10
    assert cluster.marks(cluster.leaders(["t"]))[T1][1:] == (10, 20)
    assert broker.calls == ["Metadata", "ListOffsets"] * 2


@pytest.mark.parametrize("offset", ['"00"', str(1 << 63), "-1", "-2", "null"])
def test_an_offset_that_was_written_into_the_checkpoint_by_hand_is_refused_with_its_partition(
    broker: FakeBroker, offset: str
) -> None:
    fill(broker.create("t").partitions[0], 10)
    stream = engine(broker)
    stream.trigger()
    stream.log[-1] = f'{{"t": {{"0": {offset}}}}}'
    stream.restart()
    with pytest.raises(OptionError, match=r"checkpoint .* of t:0 is not an offset; restore it, or"):
        stream.trigger()


def test_epochs_in_the_checkpoint_say_who_is_believed(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 10)
    partition.elect()
    stream = engine(broker)
    stream.trigger()
    partition.leader_epoch = 0
    monkeypatch.setattr(planner_module, "TRY_SECONDS", 0.3)
    stream.restart(**{"fetchOffset.numRetries": "0"})
    with pytest.raises(ClusterUnreachable, match="older leader"):
        stream.trigger()


def test_no_broker_at_all_is_said_with_the_addresses() -> None:
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1 answered .* is the cluster up"):
        Cluster(["127.0.0.1:1"]).leaders(["t"], patience=0.3)


def test_a_reader_is_pickled_without_its_connections(broker: FakeBroker) -> None:
    """(9) Executors are forks; what they get holds options only."""
    broker.create("t")
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    reader = StrandlineStreamReader(options)
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))
    assert copy._planner is None
    assert copy.options == options
