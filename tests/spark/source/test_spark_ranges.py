"""Reading one planned range: whole, pure, and never short, whatever the broker does meanwhile, in
plain frames and over gRPC.
"""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from strandline_proto.batch import Compression
from strandline_proto.errors import (
    CorruptMessage,
    InvalidRequest,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
)
from strandline_spark.cluster import cluster as cluster_module
from strandline_spark.cluster.cluster import close_channels, stub_for
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import DataLoss, RangeStalled, RecordsNotServed
from strandline_spark.source import ranges as ranges_module
from strandline_spark.source.losses import OnLoss
from strandline_spark.source.ranges import RangeReader
from strandline_spark.source.splitting import PlannedRange
from support.fake_broker_sync import FakeBroker
from support.fake_range_server import serving_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fake_broker_sync import FakeTopic

Rows = list[tuple[int, bytes]]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges_module, "STALL_SECONDS", 0.6)
    monkeypatch.setattr(ranges_module, "GONE_SECONDS", 0.2)
    monkeypatch.setattr(ranges_module, "REFUSED_SECONDS", 0.2)
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.3)


@pytest.fixture(params=["frames", "gRPC"])
def broker(request: pytest.FixtureRequest) -> Iterator[FakeBroker]:
    with FakeBroker() as fake:  # type: ignore[abstract] # the calls it lacks are UNIMPLEMENTED
        with serving_frames(fake) if request.param == "frames" else nullcontext():
            yield fake
        close_channels()


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """A topic of one partition: 60 batches of 100 records, of every codec, 12 MB."""
    made = broker.create("t")
    noise = random.Random(1)
    for i in range(60):
        records = [(b"%d" % (100 * i + j), noise.randbytes(1000) + bytes(1000)) for j in range(100)]
        made.partitions[0].append(records, compression=Compression(i % 5))
    return made


def new_reader(
    broker: FakeBroker,
    topic: FakeTopic,
    start: int,
    stop: int,
    *,
    epoch: int = 0,
    on_loss: OnLoss = OnLoss.STOP,
) -> RangeReader:
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, start, stop, epoch)
    return RangeReader(planned, (broker.address,), on_loss=on_loss)


def rows_of(reader: RangeReader) -> Rows:
    rows: Rows = []
    for batch in reader.batches():
        rows += zip(batch["offset"].to_pylist(), batch["key"].to_pylist(), strict=True)
    return rows


def expected(start: int, stop: int) -> Rows:
    return [(n, b"%d" % n) for n in range(start, stop)]


@pytest.mark.parametrize(("start", "stop"), [(0, 6000), (50, 51), (99, 101), (1234, 5678)])
def test_a_range_yields_its_records_and_no_others_at_every_reading(
    broker: FakeBroker, topic: FakeTopic, start: int, stop: int
) -> None:
    """(6) A task may run more than once."""
    for _ in range(2):
        reader = new_reader(broker, topic, start, stop)
        assert rows_of(reader) == expected(start, stop)
        assert (reader.decoder.rows, reader.decoder.skipped) == (stop - start, 0)


def test_memory_is_bounded_by_the_message_not_by_the_range(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    sizes = [batch.nbytes for batch in new_reader(broker, topic, 0, 6000).batches()]
    assert len(sizes) > 3
    assert max(sizes) < 12 << 20


def test_a_stream_that_breaks_off_is_taken_up_where_it_stopped(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    topic.partitions[0].cut_after_messages = 1
    assert rows_of(new_reader(broker, topic, 0, 6000)) == expected(0, 6000)
    assert broker.calls.count("FetchRange") == 2


def test_an_election_in_between_is_followed(broker: FakeBroker, topic: FakeTopic) -> None:
    partition = topic.partitions[0]
    batches = new_reader(broker, topic, 0, 6000).batches()
    rows = next(batches)["offset"].to_pylist()
    partition.elect()
    partition.errors = [NotLeaderOrFollower.code, UnknownTopicId.code]
    for batch in batches:
        rows += batch["offset"].to_pylist()
    assert rows == list(range(6000))


def test_damage_on_the_way_is_fetched_again(broker: FakeBroker, topic: FakeTopic) -> None:
    topic.partitions[0].damaged_answers = 2
    assert rows_of(new_reader(broker, topic, 0, 6000)) == expected(0, 6000)


def test_damage_at_the_broker_is_an_error_that_names_the_place(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    base, following, data = topic.partitions[0].batches[7]
    topic.partitions[0].batches[7] = (base, following, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptMessage, match=r"t:0 at offset 700: CRC"):
        rows_of(new_reader(broker, topic, 0, 6000))


def test_a_range_past_the_high_watermark_is_waited_for_then_an_error_never_short(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    """(6)"""
    topic.partitions[0].held_back = 100
    with pytest.raises(RangeStalled, match=r"t:0 at offset 0 of \[0, 6000\).*OffsetNotAvailable"):
        rows_of(new_reader(broker, topic, 0, 6000))


def test_a_log_that_now_starts_later_is_data_loss(broker: FakeBroker, topic: FakeTopic) -> None:
    topic.partitions[0].log_start = 200
    with pytest.raises(DataLoss, match=r"t:0 \[150, 200\) by retention .*starts at 200 now"):
        rows_of(new_reader(broker, topic, 150, 6000))
    for on_loss in (OnLoss.GO_ON, OnLoss.EXCEPT_RETENTION):
        lenient = new_reader(broker, topic, 150, 6000, on_loss=on_loss)
        assert rows_of(lenient) == expected(200, 6000)
        assert (lenient.decoder.lost, lenient.decoder.skipped) == (50, 0)
    topic.partitions[0].log_start = 6000
    late = new_reader(broker, topic, 150, 300, on_loss=OnLoss.GO_ON)
    assert rows_of(late) == []
    assert late.decoder.lost == 150


def test_a_leader_without_the_range_is_not_read_in_place_of_the_one_it_was_planned_by(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    """KIP-320: the new leader has other records at the same offsets."""
    partition = topic.partitions[0]
    partition.elect(keep=1000)
    for _ in range(60):
        partition.append([(b"other", b"")] * 100)
    for on_loss in (OnLoss.STOP, OnLoss.EXCEPT_RETENTION):
        with pytest.raises(DataLoss, match=r"t:0 \[1000, 6000\) by truncation"):
            rows_of(new_reader(broker, topic, 0, 6000, on_loss=on_loss))
    lenient = new_reader(broker, topic, 0, 6000, on_loss=OnLoss.GO_ON)
    assert rows_of(lenient) == expected(0, 1000)
    assert lenient.decoder.lost == 5000
    # The whole range lies in what the leaders share, or was planned by the new one.
    assert rows_of(new_reader(broker, topic, 0, 1000)) == expected(0, 1000)
    assert len(rows_of(new_reader(broker, topic, 0, 6000, epoch=1))) == 6000


def test_a_topic_that_was_created_anew_is_never_read_in_place_of_the_old_one(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    reader = new_reader(broker, topic, 0, 6000)
    lenient = new_reader(broker, topic, 0, 6000, on_loss=OnLoss.GO_ON)
    broker.create("t").partitions[0].batches = topic.partitions[0].batches
    with pytest.raises(DataLoss, match="another topic id"):
        rows_of(reader)
    assert rows_of(lenient) == []
    assert (lenient.decoder.lost, lenient.decoder.skipped) == (6000, 0)


def test_a_topic_that_is_gone_is_data_loss(broker: FakeBroker, topic: FakeTopic) -> None:
    reader = new_reader(broker, topic, 0, 6000)
    broker.topics.clear()
    with pytest.raises(DataLoss, match="does not exist"):
        rows_of(reader)


def test_a_deposed_leader_is_not_read_from(broker: FakeBroker, topic: FakeTopic) -> None:
    with pytest.raises(RangeStalled, match="older leader"):
        rows_of(new_reader(broker, topic, 0, 6000, epoch=4))


def test_an_error_that_time_does_not_cure_is_raised_at_once(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    topic.partitions[0].errors = [InvalidRequest.code]
    with pytest.raises(InvalidRequest):
        rows_of(new_reader(broker, topic, 0, 6000))


def test_a_leader_that_cannot_read_its_disk_is_given_a_short_while_to_hand_over(
    broker: FakeBroker, topic: FakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_module, "STALL_SECONDS", 60)
    partition = topic.partitions[0]
    partition.errors = [KafkaStorageError.code]
    assert rows_of(new_reader(broker, topic, 0, 6000)) == expected(0, 6000)
    partition.errors = [KafkaStorageError.code] * 100
    with pytest.raises(
        RecordsNotServed, match=r"t:0 at offset 0 of .* is not served, and no other"
    ):
        rows_of(new_reader(broker, topic, 0, 6000))


def test_control_batches_and_compacted_offsets_are_skipped_and_counted(broker: FakeBroker) -> None:
    topic = broker.create("t")
    partition = topic.partitions[0]
    partition.append([(b"0", b"")])
    partition.append_control()
    partition.append([(b"2", b"")])
    partition.append_control()
    reader = new_reader(broker, topic, 0, 4)
    assert rows_of(reader) == [(0, b"0"), (2, b"2")]
    assert (reader.decoder.rows, reader.decoder.skipped) == (2, 2)


def test_a_reader_that_stops_early_leaves_no_stream_on_the_server(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    batches = new_reader(broker, topic, 0, 6000).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    close_channels()
    # Closing the channel waits for nothing; the server's handler ends at its next step.
    for _ in cluster_module.pauses(10):
        if broker.open_ranges == 0:
            break
    assert broker.open_ranges == 0


@pytest.mark.parametrize("broker", ["gRPC"], indirect=True)
def test_a_channel_belongs_to_the_process_that_made_it(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(9) A forked worker must not use its parent's."""
    stub_for(broker.address)
    stub_for(broker.address)
    assert len(cluster_module._channels) == 1
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    stub_for(broker.address)
    assert {pid for pid, _ in cluster_module._channels} == {own, own + 1}
    close_channels()
    assert [pid for pid, _ in cluster_module._channels] == [own]
