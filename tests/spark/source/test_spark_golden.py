"""A checkpoint, a stream's checkpoint and a table that an earlier version wrote, whose offsets said
nothing of topic ids and leader epochs (those stood in `initial-offsets.json.epochs` beside them).

They were made by that version from topic t: partition 0 got five records in leader epoch 0 and
three in epoch 1, partition 1 five and three in epoch 0. The plain stream was killed in batch 1.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.bronze.bronze import BronzeJob, prepare, stream
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import DataLoss, StrandlineSparkError
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.bronze.micro_batch import BatchReport
    from support.fake_broker_sync import FakeBroker, FakeTopic

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "spark"
TOPIC_ID: Final = bytes(range(16))


def append(topic: FakeTopic, first: int, count: int) -> None:
    for p, partition in enumerate(topic.partitions):
        partition.append([(None, b"%d/%d" % (p, first + n)) for n in range(count)])


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """As it was when the files were made."""
    made = broker.create("t", 2)
    made.topic_id = TOPIC_ID
    append(made, 0, 5)
    made.partitions[0].elect()
    append(made, 5, 3)
    return made


@pytest.fixture
def resumed(broker: FakeBroker) -> EngineOfSpark:
    """The stream that was killed in batch 1."""
    path = GOLDEN / "stream" / "strandline" / "initial-offsets.json"
    found = EngineOfSpark(broker.address, initialOffsetsPath=str(path))
    logs = [(GOLDEN / "stream" / "offsets" / name).read_text() for name in ("0", "1")]
    found.log = [log.splitlines()[2] for log in logs]
    found.done = 1
    return found


def test_an_old_checkpoint_goes_on_and_its_offsets_have_their_lineage_from_then_on(
    resumed: EngineOfSpark, topic: FakeTopic
) -> None:
    assert resumed.log == ['{"t": {"0": 5, "1": 5}}', '{"t": {"0": 8, "1": 8}}']
    assert resumed.restart() == [(0, 5, 8), (1, 5, 8)]
    assert resumed.trigger() is None
    topic.partitions[1].append([(None, b"")])
    assert resumed.trigger() == [(1, 8, 9)]
    assert resumed.lineage == {"t": {"id": "AAECAwQFBgcICQoLDA0ODw", "epochs": {"0": 1, "1": 0}}}


def test_an_old_checkpoint_that_was_killed_in_its_first_batch_begins_where_its_file_says(
    resumed: EngineOfSpark, topic: FakeTopic
) -> None:
    resumed.log, resumed.done = resumed.log[:1], 0
    assert resumed.restart(startingOffsets="latest") == [(0, 0, 5), (1, 0, 5)]


def test_what_was_kept_beside_an_old_checkpoint_shows_a_topic_created_anew(
    resumed: EngineOfSpark, topic: FakeTopic
) -> None:
    topic.topic_id = bytes(16)
    append(topic, 8, 10)
    with pytest.raises(DataLoss, match="t:0 from 8 on by new topic"):
        resumed.restart()


def test_what_was_kept_beside_an_old_checkpoint_shows_a_log_that_was_cut_back(
    resumed: EngineOfSpark, topic: FakeTopic
) -> None:
    topic.partitions[1].elect(keep=5)
    append(topic, 8, 10)
    with pytest.raises(DataLoss, match=r"t:1 \[5, 8\) by truncation"):
        resumed.restart()
    # The epoch that counts is the one in which the records were read: 0 and not 1.
    resumed.log, resumed.done = resumed.log[:1], 1
    resumed.restart()
    assert resumed.trigger() == [(0, 5, 18), (1, 5, 15)]


def test_offsets_that_were_written_by_hand_are_a_start(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    by_hand = EngineOfSpark(broker.address)
    by_hand.log, by_hand.done = ['{"t":{"1":3,"0":8}}'], 1
    assert by_hand.trigger() == [(1, 3, 8)]


def copied(broker: FakeBroker, root: Path) -> BronzeJob:
    shutil.copytree(GOLDEN, root, dirs_exist_ok=True)
    return BronzeJob(broker.address, ("t",), str(root / "table"), str(root / "checkpoint"))


def test_an_old_table_is_sound(topic: FakeTopic, broker: FakeBroker, tmp_path: Path) -> None:
    table = copied(broker, tmp_path).table  # what is verified is noted beside a table
    found = verify(table, "t", broker.address, complete=True)
    assert [(one.rows, one.end_offset, one.lost, one.sound) for one in found] == [
        (8, 8, 0, True),
        (8, 8, 0, True),
    ]


@pytest.mark.spark
def test_an_old_checkpoint_and_its_table_go_on(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path
) -> None:
    job = copied(broker, tmp_path)
    append(topic, 8, 4)
    # Its last batch is run again, as after a crash: the table has it.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    reports: list[BatchReport] = []
    stream(spark, job, prepare(job), reports.append)
    assert [(r.batch_id, r.rows, r.skipped) for r in reports] == [(1, 0, True), (2, 8, False)]
    assert all(one.sound for one in verify(job.table, "t", broker.address, complete=True))
    logged = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()[2]
    assert json.loads(logged)["@lineage"]["t"]["epochs"] == {"0": 1, "1": 0}


@pytest.mark.spark
def test_a_new_checkpoint_on_an_old_table_knows_its_topic(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path
) -> None:
    job = copied(broker, tmp_path)
    shutil.rmtree(job.checkpoint)
    append(topic, 8, 4)
    topic.topic_id = bytes(16)
    start = prepare(job)
    with pytest.raises(StrandlineSparkError, match=r"created again.*begin a new table"):
        stream(spark, job, start, lambda report: None)
    topic.topic_id = TOPIC_ID
    shutil.rmtree(job.checkpoint)
    stream(spark, job, prepare(job), lambda report: None)
    assert BronzeTable.open(job.table).end(TopicPartition("t", 0)) == 12
