"""Records that a query relies on and that are gone: noticed wherever the query stands, reported for
all partitions at once, and read over, if asked, at the first record not yet read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import DataLoss, UnknownTopic
from strandline_spark.source import planner as planner_module
from strandline_spark.source.losses import (
    NAMED_MAX,
    Loss,
    OnLoss,
    Reason,
    described,
    for_job,
    settle,
)
from strandline_spark.source.options import parse_options
from strandline_spark.source.planner import Planner
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from support.fake_broker_sync import FakeBroker, FakePartition, FakeTopic


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "TRAILING_SECONDS", 0.2)


def fill(partition: FakePartition, count: int) -> None:
    for _ in range(count // 10):
        partition.append([(b"k", b"v")] * 10)


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """Two partitions of 50 records."""
    made = broker.create("t", 2)
    for partition in made.partitions:
        fill(partition, 50)
    return made


def at_50(broker: FakeBroker, on_loss: str, *, stopped: bool, **more: str) -> EngineOfSpark:
    """A stream that has read all there is, and was stopped then or runs on."""
    stream = EngineOfSpark(
        broker.address, startingOffsets="earliest", failOnDataLoss=on_loss, **more
    )
    assert stream.trigger() == [(0, 0, 50), (1, 0, 50)]
    if stopped:
        stream.restart()
    return stream


both = pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])


@both
@pytest.mark.parametrize("size", [20, 50, 100])
def test_a_topic_created_anew_is_noticed_however_long_it_is(
    broker: FakeBroker, topic: FakeTopic, stopped: bool, size: int
) -> None:
    streams = {s: at_50(broker, s, stopped=stopped) for s in OnLoss}
    for partition in broker.create("t", 2).partitions:
        fill(partition, size)
    for on_loss in ("true", "exceptRetention"):
        with pytest.raises(
            DataLoss, match=r"t:0 from 50 on by new topic \(deleted and created again.*; t:1 from"
        ):
            streams[OnLoss(on_loss)].trigger()
    lenient = streams[OnLoss.GO_ON]
    assert lenient.trigger() == [(0, 0, size), (1, 0, size)]
    assert lenient.trigger() is None
    lenient.restart()
    assert lenient.trigger() is None


@both
def test_a_log_that_was_cut_back_is_noticed_though_it_is_longer_now(
    broker: FakeBroker, topic: FakeTopic, stopped: bool
) -> None:
    """KIP-320: offsets alone would not show it."""
    streams = {s: at_50(broker, s, stopped=stopped) for s in OnLoss}
    topic.partitions[0].elect(keep=30)
    fill(topic.partitions[0], 100)
    for on_loss in ("true", "exceptRetention"):
        with pytest.raises(
            DataLoss, match=r"t:0 \[30, 50\) by truncation \(the log left leader epoch 0 at 30"
        ):
            streams[OnLoss(on_loss)].trigger()
    lenient = streams[OnLoss.GO_ON]
    assert lenient.trigger() == [(0, 30, 130)]
    assert lenient.trigger() is None
    fill(topic.partitions[0], 10)
    assert lenient.trigger() == [(0, 130, 140)]


def test_a_log_that_was_cut_back_and_is_as_long_as_before_has_other_records(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    stream = at_50(broker, "false", stopped=False)
    topic.partitions[0].elect(keep=30)
    fill(topic.partitions[0], 20)
    assert stream.trigger() == [(0, 30, 50)]
    assert stream.trigger() is None


@both
def test_a_log_that_was_cut_back_and_is_shorter_goes_on_where_the_histories_part(
    broker: FakeBroker, topic: FakeTopic, stopped: bool
) -> None:
    stream = at_50(broker, "false", stopped=stopped)
    topic.partitions[0].elect(keep=30)
    fill(topic.partitions[0], 10)
    assert stream.trigger() == [(0, 30, 40)]
    assert stream.ends == {"t": {"0": 40, "1": 50}}
    assert stream.lineage["t"]["starts"] == {"0": 30}
    fill(topic.partitions[0], 30)
    assert stream.trigger() == [(0, 40, 70)]


def test_a_cut_is_found_by_the_epoch_of_what_was_read_not_by_that_of_the_last_leader(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    """The unclean leader has an epoch of its own between the two that the query knows."""
    stream = EngineOfSpark(broker.address, startingOffsets="earliest")
    assert stream.trigger(80) == [(0, 0, 40), (1, 0, 40)]
    partition = topic.partitions[0]
    partition.leader_epoch, partition.epochs = 2, [(0, 0), (2, 50)]
    assert stream.trigger(2) == [(0, 40, 41), (1, 40, 41)]
    partition.batches = partition.batches[:3]
    partition.leader_epoch, partition.epochs = 3, [(0, 0), (1, 30), (3, 60)]
    fill(partition, 100)
    with pytest.raises(DataLoss, match=r"t:0 \[30, 41\) by truncation"):
        stream.trigger()


def test_a_log_that_ends_below_the_start_is_lost_only_on_a_full_isr(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    """(5) The replicas that are missing may still have it."""
    strict = at_50(broker, "true", stopped=False)
    lenient = at_50(broker, "false", stopped=False)
    topic.partitions[0].replicas = (1, 2)
    del topic.partitions[0].batches[3:]
    assert strict.trigger() is None
    topic.partitions[0].isr = (2, 1)
    with pytest.raises(DataLoss, match=r"t:0 \[30, 50\) by truncation \(the log ends at 30"):
        strict.trigger()
    assert lenient.trigger() == []
    fill(topic.partitions[0], 50)
    assert lenient.trigger() == [(0, 30, 80)]


@both
def test_retention_that_overtook_is_reported_with_its_ways_out(
    broker: FakeBroker, topic: FakeTopic, stopped: bool
) -> None:
    streams = {s: at_50(broker, s, stopped=stopped) for s in OnLoss}
    for partition in topic.partitions:
        fill(partition, 50)
        partition.log_start = 60
    with pytest.raises(DataLoss, match=r"t:0 \[50, 60\) by retention .*; t:1 \[50, 60\).*sooner"):
        streams[OnLoss.STOP].trigger()
    for on_loss in (OnLoss.GO_ON, OnLoss.EXCEPT_RETENTION):
        # The tasks start where the offsets do: what is gone there is counted as lost.
        assert streams[on_loss].trigger() == [(0, 50, 100), (1, 50, 100)]


def test_lost_offsets_do_not_count_against_a_limit(broker: FakeBroker, topic: FakeTopic) -> None:
    stream = at_50(broker, "false", stopped=False)
    fill(topic.partitions[0], 1000)
    topic.partitions[0].log_start = 900
    assert stream.trigger(20) == [(0, 50, 920)]
    assert stream.trigger(20) == [(0, 920, 940)]


def test_a_partition_that_came_and_lost_its_first_records_has_lost_records(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    stream = at_50(broker, "true", stopped=False)
    topic.partitions.append(type(topic.partitions[0])(log_start=5))
    with pytest.raises(DataLoss, match=r"t:2 \[0, 5\) by retention"):
        stream.trigger()


@both
def test_a_deleted_topic_is_a_loss_once_it_was_read_and_the_others_go_on(
    broker: FakeBroker, topic: FakeTopic, stopped: bool
) -> None:
    other = broker.create("u")
    strict, lenient = (
        EngineOfSpark(
            broker.address, subscribe="t,u", startingOffsets="earliest", failOnDataLoss=on_loss
        )
        for on_loss in ("exceptRetention", "false")
    )
    for stream in (strict, lenient):
        assert stream.trigger() == [(0, 0, 50), (1, 0, 50)]
        if stopped:
            stream.available_now()
    kept = broker.topics.pop("t")
    fill(other.partitions[0], 10)
    strict.restart()
    with pytest.raises(DataLoss, match=r"t:0 from 50 on by deletion \(topic t does not exist\)"):
        strict.trigger()
    lenient.restart()
    assert lenient.trigger() == [(0, 0, 10)]
    assert lenient.trigger() is None
    # Brokers that had not heard of it for a while: it is the same topic after all.
    broker.topics["t"] = kept
    fill(kept.partitions[0], 10)
    assert lenient.trigger() == [(0, 50, 60)]
    del broker.topics["t"]
    lenient.trigger()
    fill(broker.create("t").partitions[0], 20)
    assert lenient.trigger() == [(0, 0, 20)]


def test_a_topic_that_was_never_read_is_unknown_and_not_lost(broker: FakeBroker) -> None:
    stream = EngineOfSpark(broker.address, failOnDataLoss="false")
    with pytest.raises(UnknownTopic, match="topic create"):
        stream.trigger()


def test_a_topic_that_came_anew_with_fewer_partitions_keeps_no_offset_of_the_old_one(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    stream = at_50(broker, "false", stopped=False)
    again = broker.create("t")
    fill(again.partitions[0], 20)
    assert stream.trigger() == [(0, 0, 20)]
    assert stream.ends == {"t": {"0": 20}}
    again.partitions.append(type(again.partitions[0])())
    fill(again.partitions[1], 70)
    assert stream.trigger() == [(1, 0, 70)]


def test_a_partition_that_left_the_query_is_a_loss(broker: FakeBroker, topic: FakeTopic) -> None:
    stream = at_50(broker, "true", stopped=False, subscribe="", assign='{"t":[0,1]}')
    stream.restart(assign='{"t":[0]}')
    with pytest.raises(DataLoss, match=r"t:1 from 50 on by deletion .*no longer part of the query"):
        stream.trigger()


def planned_and_stopped(broker: FakeBroker, topic: FakeTopic) -> dict[OnLoss, EngineOfSpark]:
    """Streams whose second batch, from 50 to 100, was logged and not run."""
    streams = {s: at_50(broker, s, stopped=False) for s in OnLoss}
    for partition in topic.partitions:
        fill(partition, 50)
    assert all(stream.plan() for stream in streams.values())
    return streams


def test_a_batch_planned_before_a_restart_is_not_read_from_a_log_that_was_cut_back(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    streams = planned_and_stopped(broker, topic)
    topic.partitions[0].elect(keep=70)
    fill(topic.partitions[0], 100)
    for on_loss in (OnLoss.STOP, OnLoss.EXCEPT_RETENTION):
        with pytest.raises(DataLoss, match=r"t:0 \[70, 100\) by truncation"):
            streams[on_loss].restart()
    lenient = streams[OnLoss.GO_ON]
    assert lenient.restart() == [(0, 50, 70), (1, 50, 100)]
    # What the new leader has from there on comes with the next batch.
    assert lenient.trigger() == [(0, 70, 170)]


def test_a_batch_that_was_planned_past_the_end_of_the_log_is_judged_before_its_tasks(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    """An offset without a lineage, as one writes it by hand."""
    streams = planned_and_stopped(broker, topic)
    for stream in streams.values():
        stream.log[-1] = '{"t": {"0": 9999, "1": 60}}'
    for on_loss in (OnLoss.STOP, OnLoss.EXCEPT_RETENTION):
        with pytest.raises(DataLoss, match=r"t:0 \[100, 9999\) by .*log ends at 100, before"):
            streams[on_loss].restart()
    lenient = streams[OnLoss.GO_ON]
    assert lenient.restart() == [(0, 50, 100), (1, 50, 60)]
    assert lenient.trigger() == [(1, 60, 100)]
    assert lenient.ends == {"t": {"0": 100, "1": 100}}


def test_a_batch_planned_before_a_restart_may_have_been_overtaken_by_retention(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    streams = planned_and_stopped(broker, topic)
    topic.partitions[1].log_start = 80
    with pytest.raises(DataLoss, match=r"t:1 \[50, 80\) by retention"):
        streams[OnLoss.STOP].restart()
    for on_loss in (OnLoss.GO_ON, OnLoss.EXCEPT_RETENTION):
        assert streams[on_loss].restart() == [(0, 50, 100), (1, 50, 100)]


def test_a_batch_planned_before_a_restart_is_not_read_from_a_topic_created_anew(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    streams = planned_and_stopped(broker, topic)
    fill(broker.create("t").partitions[0], 500)
    for on_loss in (OnLoss.STOP, OnLoss.EXCEPT_RETENTION):
        with pytest.raises(DataLoss, match="by new topic"):
            streams[on_loss].restart()
    assert streams[OnLoss.GO_ON].restart() == []
    assert streams[OnLoss.GO_ON].trigger() == [(0, 0, 500)]


def test_a_batch_query_reports_all_that_retention_took(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    for partition in topic.partitions:
        partition.log_start = 20
    options = {
        "bootstrap.servers": broker.address,
        "subscribe": "t",
        "startingOffsets": '{"t":{"0":5,"1":10}}',
    }
    with pytest.raises(DataLoss, match=r"t:0 \[5, 20\) by retention .*; t:1 \[10, 20\)"):
        Planner(parse_options(options)).batch_ranges()
    lenient = Planner(parse_options(options | {"failOnDataLoss": "false"})).batch_ranges()
    assert [(one.start, one.stop) for one in lenient] == [(5, 50), (10, 50)]


def test_where_another_query_ended_is_a_start_with_its_lineage(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    first = at_50(broker, "true", stopped=False)
    fill(topic.partitions[0], 10)
    second = EngineOfSpark(broker.address, startingOffsets=first.log[-1])
    assert second.trigger() == [(0, 50, 60)]
    fill(broker.create("t", 2).partitions[0], 100)
    third = EngineOfSpark(broker.address, startingOffsets=first.log[-1])
    with pytest.raises(DataLoss, match="created again"):
        third.trigger()


def test_a_loss_is_told_once(
    broker: FakeBroker, topic: FakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    stream = at_50(broker, "false", stopped=False)
    broker.topics.clear()
    for _ in range(3):
        assert stream.trigger() is None
    assert [record.message.count("by deletion") for record in caplog.records] == [2]


def test_a_message_names_so_many_partitions_and_counts_the_rest() -> None:
    losses = [
        Loss(TopicPartition("t", n), 0, 9, Reason.RETENTION, "why") for n in range(NAMED_MAX + 3)
    ]
    text = described(losses)
    assert text.count("by retention") == NAMED_MAX
    assert text.endswith("; and 3 more")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [
        (Reason.RETENTION, "--on-loss record"),
        (Reason.NEW_TOPIC, "begin a new table"),
        (Reason.DELETION, "an empty path for --checkpoint: the job goes on where the table ends"),
    ],
)
def test_the_job_names_its_own_ways_out(reason: Reason, way_out: str) -> None:
    with pytest.raises(DataLoss) as raised:
        settle([Loss(TopicPartition("t", 0), 3, None, reason, "why")], OnLoss.STOP)
    assert "failOnDataLoss" in str(raised.value)
    text = for_job(str(raised.value))
    assert way_out in text
    assert "failOnDataLoss" not in text
    assert ("new table" in text) == (reason is not Reason.DELETION)


def test_a_deletion_beside_offsets_that_mean_other_records_asks_for_a_new_table() -> None:
    losses = [
        Loss(TopicPartition("t", n), 3, None, reason, "why")
        for n, reason in enumerate((Reason.DELETION, Reason.TRUNCATION))
    ]
    with pytest.raises(DataLoss) as raised:
        settle(losses, OnLoss.STOP)
    assert "begin a new table" in for_job(str(raised.value))
