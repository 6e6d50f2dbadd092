"""Which offsets a query reads. The numbers in brackets are the traps of Spark's source API."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from strandline_proto.errors import NotLeaderOrFollower, OffsetNotAvailable, TopicAlreadyExists
from strandline_spark import cluster as cluster_module
from strandline_spark import planner as planner_module
from strandline_spark.cluster import Cluster
from strandline_spark.errors import ClusterUnreachable, DataLoss, OptionError, UnknownTopic
from strandline_spark.offsets import Offsets, TopicPartition
from strandline_spark.options import parse_options
from strandline_spark.planner import Planner
from strandline_spark.positions import Lineage, PositionFiles
from strandline_spark.source import StrandlineStreamReader

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker, FakePartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(partition: FakePartition, count: int) -> None:
    for _ in range(count // 10):
        partition.append([(b"k", b"v")] * 10)


def new_planner(broker: FakeBroker, path: Path | None = None, **more: str) -> Planner:
    options = {"bootstrap.servers": broker.address, "subscribe": "t"} | more
    if path is not None:
        options["initialOffsetsPath"] = str(path)
    return Planner(parse_options(options))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "TRAILING_SECONDS", 0.2)


def test_the_initial_offset_stays_what_it_was_at_the_first_call(broker: FakeBroker) -> None:
    """(1) Spark asks twice before the first batch; live traffic must not move it."""
    (partition,) = broker.create("t").partitions
    fill(partition, 20)
    planner = new_planner(broker)
    assert planner.initial() == {T0: 20}
    fill(partition, 10)
    assert planner.initial() == {T0: 20}
    assert planner.latest({T0: 20}, None) == {T0: 30}


def test_the_initial_offset_survives_a_restart_before_batch_0_has_committed(
    broker: FakeBroker, tmp_path: Path
) -> None:
    """(2)"""
    (partition,) = broker.create("t").partitions
    fill(partition, 20)
    path = tmp_path / "deep" / "initial.json"
    assert new_planner(broker, path).initial() == {T0: 20}
    fill(partition, 10)
    assert new_planner(broker, path).initial() == {T0: 20}
    assert json.loads(path.read_text())["offsets"] == {"t": {"0": 20}}


def test_the_first_writer_of_the_initial_offsets_wins(tmp_path: Path) -> None:
    path = tmp_path / "initial.json"
    assert PositionFiles(str(path)).write_initial({T0: 1}) == {T0: 1}
    assert PositionFiles(str(path)).write_initial({T0: 2}) == {T0: 1}
    assert [p.name for p in tmp_path.iterdir()] == ["initial.json"]


def test_a_file_of_offsets_that_is_not_ours_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "initial.json"
    path.write_text("{}")
    with pytest.raises(OptionError, match=r"initial\.json is not a file"):
        PositionFiles(str(path)).initial()
    path.write_text("{")
    with pytest.raises(OptionError, match=r"initial\.json is not a file"):
        PositionFiles(str(path)).initial()
    (tmp_path / "initial.json.epochs").write_text('{"topic_ids": 3}')
    with pytest.raises(OptionError, match=r"epochs is not a file"):
        PositionFiles(str(path)).lineage()


def test_offsets_come_out_sorted_by_topic_and_partition_number(broker: FakeBroker) -> None:
    """(3) Spark compares them as text."""
    broker.create("t", 11)
    broker.create("a", 1)
    planner = new_planner(broker, subscribe="t,a")
    planner_order = list(planner.latest({}, None))
    assert [tp.topic for tp in planner_order].count("a") == 1
    reader = StrandlineStreamReader(
        parse_options({"bootstrap.servers": broker.address, "subscribe": "t,a"})
    )
    first = reader.initialOffset()
    assert list(first) == ["a", "t"]
    assert list(first["t"]) == [str(n) for n in range(11)]


def test_available_now_ends_at_its_target_under_a_limit_and_ignores_later_data(
    broker: FakeBroker,
) -> None:
    """(4)"""
    topic = broker.create("t", 1)
    fill(topic.partitions[0], 50)
    planner = new_planner(broker, startingOffsets="earliest")
    planner.take_target()
    fill(topic.partitions[0], 50)
    topic.partitions.append(type(topic.partitions[0])())
    fill(topic.partitions[1], 10)
    offsets, seen = planner.initial(), []
    offsets.pop(T1, None)
    while (following := planner.latest(offsets, 20)) != offsets:
        seen.append(following)
        offsets = following
    assert seen == [{T0: 20}, {T0: 40}, {T0: 50}]


def test_available_now_on_a_restart_beyond_its_target_ends_at_once(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    partition.held_back = 20
    planner = new_planner(broker)
    planner.take_target()
    partition.held_back = 0
    assert planner.latest({T0: 40}, None) == {T0: 40}


def test_a_trailing_high_watermark_never_moves_the_end_below_the_start(
    broker: FakeBroker,
) -> None:
    """(5) The new leader's watermark trails its log for a while: nothing new, and no alarm."""
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    planner = new_planner(broker)
    start = planner.latest({T0: 0}, None)
    partition.held_back = 30
    assert planner.latest(start, None) == start
    partition.held_back = 0
    fill(partition, 10)
    assert planner.latest(start, None) == {T0: 60}


def test_a_log_that_ends_below_the_start_is_data_loss_only_on_a_full_isr(
    broker: FakeBroker,
) -> None:
    """(5)"""
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    partition.replicas = (1, 2)
    planner = new_planner(broker)
    del partition.batches[3:]
    assert planner.latest({T0: 50}, None) == {T0: 50}
    partition.isr = (2, 1)
    with pytest.raises(DataLoss, match="ends at 30"):
        planner.latest({T0: 50}, None)


def test_a_log_that_left_an_epoch_early_is_noticed_after_a_restart(
    broker: FakeBroker, tmp_path: Path
) -> None:
    """KIP-320: the log is longer than before, so offsets alone would not show it."""
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    path = tmp_path / "initial.json"
    planner = new_planner(broker, path, startingOffsets="earliest")
    assert planner.latest(planner.initial(), None) == {T0: 50}
    partition.elect(keep=30)
    fill(partition, 100)
    with pytest.raises(DataLoss, match=r"t/0 was read up to 50 .* left that epoch at 30"):
        new_planner(broker, path).latest({T0: 50}, None)
    with pytest.raises(DataLoss, match="truncated"):
        new_planner(broker, path).ranges({T0: 0}, {T0: 50})
    lenient = new_planner(broker, path, failOnDataLoss="false")
    assert lenient.latest({T0: 50}, None) == {T0: 130}


def test_a_log_that_left_an_epoch_early_is_noticed_while_the_query_runs(
    broker: FakeBroker,
) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    planner = new_planner(broker)
    end = planner.latest({T0: 0}, None)
    partition.elect(keep=30)
    fill(partition, 100)
    with pytest.raises(DataLoss, match="truncated"):
        planner.latest(end, None)


def test_an_election_that_lost_nothing_is_checked_once_and_read_over(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 50)
    planner = new_planner(broker)
    end = planner.latest({T0: 0}, None)
    # What lay above the committed end may go: nobody has read it.
    partition.elect()
    for _ in range(3):
        assert planner.latest(end, None) == end
    fill(partition, 10)
    assert planner.latest(end, None) == {T0: 60}
    assert planner.latest({T0: 60}, None) == {T0: 60}
    assert broker.calls.count("OffsetsForLeaderEpoch") == 1


def test_a_topic_that_was_created_anew_is_data_loss_even_if_it_is_longer(
    broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker.create("t").partitions[0], 50)
    path = tmp_path / "initial.json"
    planner = new_planner(broker, path)
    end = planner.latest({T0: 0}, None)
    fill(broker.create("t").partitions[0], 100)
    with pytest.raises(DataLoss, match="created again"):
        planner.latest(end, None)
    with pytest.raises(DataLoss, match="created again"):
        new_planner(broker, path).latest(end, None)


def test_without_fail_on_data_loss_a_shorter_topic_is_read_from_its_beginning(
    broker: FakeBroker,
) -> None:
    fill(broker.create("t").partitions[0], 50)
    planner = new_planner(broker, failOnDataLoss="false")
    end = planner.latest({T0: 0}, None)
    fill(broker.create("t").partitions[0], 20)
    rewound = planner.latest(end, None)
    assert rewound == {T0: 20}
    (planned,) = planner.ranges(end, rewound)
    assert (planned.start, planned.stop) == (0, 20)


def test_a_topic_that_was_deleted_is_data_loss_once_it_was_read(broker: FakeBroker) -> None:
    fill(broker.create("t").partitions[0], 50)
    planner = new_planner(broker)
    end = planner.latest({T0: 0}, None)
    broker.topics.clear()
    with pytest.raises(DataLoss, match="does not exist"):
        planner.latest(end, None)
    lenient = new_planner(broker, failOnDataLoss="false")
    with pytest.raises(UnknownTopic, match="topic create"):
        lenient.latest({}, None)


def test_without_fail_on_data_loss_the_other_topics_go_on(broker: FakeBroker) -> None:
    fill(broker.create("t").partitions[0], 50)
    fill(broker.create("u").partitions[0], 10)
    planner = new_planner(broker, subscribe="t,u", failOnDataLoss="false")
    end = planner.latest({}, None)
    del broker.topics["t"]
    assert planner.latest(end, None) == {TopicPartition("u", 0): 10}


def test_a_partition_that_is_new_to_the_query_starts_at_its_first_record(
    broker: FakeBroker,
) -> None:
    topic = broker.create("t", 2)
    for partition in topic.partitions:
        fill(partition, 20)
    planner = new_planner(broker)
    end = planner.latest({T0: 20}, None)
    assert end == {T0: 20, T1: 20}
    (planned,) = planner.ranges({T0: 20}, end)
    assert (planned.tp, planned.start, planned.stop) == (T1, 0, 20)
    topic.partitions[1].log_start = 5
    with pytest.raises(DataLoss, match="begins at 5"):
        planner.latest({T0: 20}, None)


def test_a_partition_that_left_the_query_is_data_loss(broker: FakeBroker) -> None:
    broker.create("t")
    planner = new_planner(broker)
    start: Offsets = {T0: 0, TopicPartition("old", 0): 7}
    with pytest.raises(DataLoss, match="old/0 is no longer part of the query"):
        planner.latest(start, None)


def test_one_task_reads_one_partition_and_empty_ones_have_none(broker: FakeBroker) -> None:
    topic = broker.create("t", 3)
    fill(topic.partitions[0], 20)
    fill(topic.partitions[2], 30)
    topic.partitions[2].elect()
    planner = new_planner(broker)
    planned = planner.ranges({T0: 5, T1: 0}, planner.latest({T0: 5, T1: 0}, None))
    assert [(one.tp.partition, one.start, one.stop) for one in planned] == [(0, 5, 20), (2, 0, 30)]
    assert {one.topic_id for one in planned} == {topic.topic_id}
    assert planned[1].leader_epoch == 1


def test_a_batch_query_takes_words_and_numbers_for_its_bounds(broker: FakeBroker) -> None:
    topic = broker.create("t", 2)
    for partition in topic.partitions:
        fill(partition, 50)
    start, end = new_planner(
        broker, startingOffsets='{"t":{"0":-2,"1":7}}', endingOffsets='{"t":{"0":-1,"1":9}}'
    ).batch_bounds()
    assert start == {T0: 0, T1: 7}
    assert end == {T0: 50, T1: 9}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": '{"t":{"0":1}}'}, "missing t/1"),
        ({"startingOffsets": '{"t":{"0":1,"1":1,"2":1}}'}, "not read t/2"),
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
        new_planner(broker, None, **more).batch_bounds()


def test_a_stream_that_would_start_beyond_the_end_is_refused(broker: FakeBroker) -> None:
    broker.create("t")
    with pytest.raises(OptionError, match="lies beyond"):
        new_planner(broker, startingOffsets='{"t":{"0":9}}').initial()


def test_assigned_partitions_must_exist(broker: FakeBroker) -> None:
    fill(broker.create("t", 2).partitions[1], 10)
    options = {"bootstrap.servers": broker.address, "assign": '{"t":[1]}'}
    assert Planner(parse_options(options)).latest({}, None) == {T1: 10}
    options["assign"] = '{"t":[1,5]}'
    with pytest.raises(UnknownTopic, match="t/5"):
        Planner(parse_options(options)).latest({}, None)


def test_answers_that_an_election_delays_are_asked_for_again(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 10)
    partition.errors = [NotLeaderOrFollower.code, OffsetNotAvailable.code]
    assert Cluster([broker.address]).offsets_at({T0: -1})[T0].offset == 10


@pytest.mark.parametrize(
    ("described", "error"), [(1, "FencedLeaderEpoch"), (3, "UnknownLeaderEpoch")]
)
def test_an_offset_is_taken_only_from_the_epoch_that_the_metadata_named(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, described: int, error: str
) -> None:
    (partition,) = broker.create("t").partitions
    partition.leader_epoch, partition.described_epoch = 2, described
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(ClusterUnreachable, match=f"t/0 gave no offset .* {error}"):
        Cluster([broker.address]).offsets_at({T0: -1})
    with pytest.raises(ClusterUnreachable, match=error):
        Cluster([broker.address]).epoch_ends({T0: 0})


def test_an_error_that_time_does_not_cure_is_raised_at_once(broker: FakeBroker) -> None:
    (partition,) = broker.create("t").partitions
    partition.errors = [TopicAlreadyExists.code]
    with pytest.raises(TopicAlreadyExists):
        Cluster([broker.address]).offsets_at({T0: -1})


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


def test_stored_epochs_seed_what_is_believed(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = broker.create("t").partitions
    fill(partition, 10)
    partition.elect()
    path = tmp_path / "initial.json"
    new_planner(broker, path, startingOffsets="earliest").latest({T0: 0}, None)
    partition.leader_epoch = 0
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(ClusterUnreachable, match="older leader"):
        new_planner(broker, path).latest({T0: 10}, None)


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


def test_the_smallest_epoch_that_covers_an_offset_is_the_one_that_counts() -> None:
    lineage = Lineage()
    assert lineage.note(T0, epoch=2, end=50)
    assert lineage.note(T0, epoch=4, end=80)
    assert not lineage.note(T0, epoch=4, end=80)
    assert lineage.epoch_of(T0, 50) == 2
    assert lineage.epoch_of(T0, 51) == 4
    assert lineage.epoch_of(T0, 81) is None
    assert lineage.epoch_of(T1, 0) is None
    lineage.topic_ids["t"] = bytes(16)
    assert Lineage.from_data(json.loads(json.dumps(lineage.to_data()))) == lineage
