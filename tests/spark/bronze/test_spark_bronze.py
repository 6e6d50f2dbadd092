"""The bronze job on the shared session: both modes, restarts, fences, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.audit import audit_path
from strandline_spark.bronze.bronze import BronzeJob, prepare, stream
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.compaction import compact
from strandline_spark.bronze.vacuum import vacuum
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.commands.main import main
from strandline_spark.errors import (
    DataLoss,
    EnvironmentProblem,
    FenceError,
    OptionError,
    StrandlineSparkError,
    TableError,
    UnknownTopic,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.bronze.micro_batch import BatchReport
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    made = broker.create("t", 2)
    fill(made, 10)
    return made


def fill(topic: FakeTopic, batches: int) -> None:
    """Batches of 100 records, each value saying its place."""
    for p, partition in enumerate(topic.partitions):
        for _ in range(batches):
            first = partition.log_end
            partition.append([(b"k", b"%d/%d" % (p, first + j)) for j in range(100)])


@pytest.fixture
def job(broker: FakeBroker, tmp_path: Path) -> BronzeJob:
    return BronzeJob(
        bootstrap=broker.address,
        topics=("t",),
        table=str(tmp_path / "table"),
        checkpoint=str(tmp_path / "checkpoint"),
    )


@pytest.fixture
def batches(job: BronzeJob) -> BronzeJob:
    """The job, which reads the topic in three batches."""
    return replace(job, max_offsets_per_trigger=800)


def run(spark: SparkSession, job: BronzeJob) -> list[BatchReport]:
    reports: list[BatchReport] = []
    stream(spark, job, prepare(job), reports.append)
    return reports


def rows(job: BronzeJob) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = BronzeTable.open(job.table).delta.to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def assert_whole(job: BronzeJob, topic: FakeTopic) -> None:
    found = rows(job)
    assert [(r["partition"], r["offset"]) for r in found] == [
        (p, n) for p, partition in enumerate(topic.partitions) for n in range(partition.log_end)
    ]
    assert all(r["value"] == b"%d/%d" % (r["partition"], r["offset"]) for r in found)
    assert all(one.sound for one in verify(job.table, "t", job.bootstrap))


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "dataframe"])
def test_every_record_comes_into_the_table_once_over_batches_and_restarts(
    spark: SparkSession, batches: BronzeJob, topic: FakeTopic, direct: bool, tmp_path: Path
) -> None:
    job = replace(batches, direct=direct)
    reports = run(spark, job)
    assert [(r.batch_id, r.rows) for r in reports] == [(0, 800), (1, 800), (2, 400)]
    assert_whole(job, topic)
    fill(topic, 2)
    assert [r.rows for r in run(spark, job)] == [400]
    assert_whole(job, topic)
    (row,) = [r for r in rows(job) if (r["partition"], r["offset"]) == (1, 450)]
    assert (row["topic"], row["batch_id"], row["leader_epoch"], row["headers"]) == ("t", 1, 0, None)
    # Whatever the mode, a file lies where its partition columns say, and nothing else is left.
    left = {
        path.relative_to(tmp_path / "table").parts[0] for path in (tmp_path / "table").iterdir()
    }
    assert left == {"_delta_log", "_ops", "topic=t"}
    assert_audited(job, direct)


def assert_audited(job: BronzeJob, direct: bool) -> None:
    """The audit joins, has what the table has, and knows the mark if the tasks tell it."""
    table = BronzeTable.open(job.table)
    for p in range(2):
        audit = DeltaTable(audit_path(job.table)).to_pyarrow_table().to_pylist()
        own = sorted((r for r in audit if r["partition"] == p), key=lambda r: r["start_offset"])
        assert [r["start_offset"] for r in own] == [0, *(r["end_offset"] for r in own[:-1])]
        for r in own:
            span = (r["min_offset"], r["max_offset"] + 1, r["max_offset"] - r["min_offset"] + 1)
            assert span == (r["start_offset"], r["end_offset"], r["rows"])
            assert (r["min_epoch"], r["max_epoch"]) == (0, 0)
            assert r["min_timestamp"].timestamp() == r["max_timestamp"].timestamp() == 1.7e9
        assert own[-1]["end_offset"] == table.end(TopicPartition("t", p)) == 1200
        marks = [(r["high_watermark"], r["lag"]) for r in own]
        expected = [(1000, 600), (1000, 200), (1000, 0), (1200, 0)]
        assert marks == (expected if direct else [(None, None)] * 4)
    files = pa.table(table.delta.get_add_actions())
    assert sum(r["bytes"] for r in audit) == sum(files.column("size_bytes").to_pylist())


def test_the_modes_may_change_on_one_checkpoint(
    spark: SparkSession, batches: BronzeJob, topic: FakeTopic
) -> None:
    run(spark, replace(batches, direct=False))
    fill(topic, 2)
    run(spark, replace(batches, direct=True))
    assert_whole(batches, topic)


def test_control_batches_are_accounted_for(
    spark: SparkSession, job: BronzeJob, broker: FakeBroker
) -> None:
    partition = broker.create("t").partitions[0]
    partition.append([(b"k", b"0/0")])
    partition.append_control()
    run(spark, job)
    partition.append_control()
    # A batch without a row still moves the table's end.
    assert [(r.rows, r.files) for r in run(spark, job)] == [(0, 0)]
    (found,) = verify(job.table, "t", job.bootstrap)
    assert (found.rows, found.skipped, found.gaps, found.end_offset) == (1, 2, 0, 3)
    assert found.sound


def test_a_new_checkpoint_goes_on_where_the_table_ends(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic
) -> None:
    run(spark, job)
    shutil.rmtree(job.checkpoint)
    fill(topic, 1)
    assert sum(r.rows for r in run(spark, job)) == 200
    assert_whole(job, topic)


def test_a_new_checkpoint_that_would_start_elsewhere_is_fenced_before_spark_starts(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic
) -> None:
    run(spark, job)
    shutil.rmtree(job.checkpoint)
    fill(topic, 1)
    for start, word in (("earliest", "doubled"), ("latest", "lost")):
        with pytest.raises(FenceError, match=word):
            prepare(replace(job, start=start))
    assert_whole_prefix(job)


def assert_whole_prefix(job: BronzeJob) -> None:
    assert [one.sound for one in verify(job.table, "t", None)] == [True, True]


def test_a_checkpoint_that_fell_behind_its_table_is_fenced(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, tmp_path: Path
) -> None:
    """A copy of a checkpoint, or a second job: the table is further than it knows."""
    run(spark, replace(job, max_offsets_per_trigger=None))
    shutil.copytree(job.checkpoint, tmp_path / "copy")
    fill(topic, 1)
    run(spark, job)
    fill(topic, 1)
    shutil.rmtree(tmp_path / "copy" / "commits")
    behind = replace(job, checkpoint=str(tmp_path / "copy"))
    # The query has committed this batch, but then it ended earlier.
    with pytest.raises(StrandlineSparkError, match="this batch would end at"):
        run(spark, replace(behind, max_offsets_per_trigger=None))
    run(spark, job)
    assert_whole(job, topic)


def test_a_topic_created_anew_is_noticed_by_a_new_checkpoint_through_the_table(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, broker: FakeBroker
) -> None:
    run(spark, job)
    shutil.rmtree(job.checkpoint)
    fill(broker.create("t", 2), 20)
    with pytest.raises(StrandlineSparkError, match=r"deleted and created again.*begin a new table"):
        run(spark, job)


def test_a_table_that_retention_has_overtaken_goes_on_if_asked_and_says_what_is_lost(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic
) -> None:
    run(spark, job)
    fill(topic, 2)
    for partition in topic.partitions:
        partition.log_start = 1050
    with pytest.raises(StrandlineSparkError, match=r"t:0 \[1000, 1050\) by retention.*--on-loss"):
        run(spark, job)
    (report,) = run(spark, replace(job, record_losses=True))
    assert (report.rows, report.lost) == (300, 100)
    found = verify(job.table, "t", job.bootstrap, complete=True, allow_lost=True)
    assert [(one.lost, one.skipped, one.gaps, one.sound) for one in found] == [(50, 0, 0, True)] * 2
    strict = verify(job.table, "t", job.bootstrap)
    assert [one.problems for one in strict] == [["50 offsets were lost to retention"]] * 2


def test_a_topic_created_anew_stops_a_job_that_records_losses(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, broker: FakeBroker
) -> None:
    run(spark, job)
    fill(broker.create("t", 2), 20)
    with pytest.raises(StrandlineSparkError, match=r"by new topic .*begin a new table"):
        run(spark, replace(job, record_losses=True))


def test_a_new_checkpoint_without_anything_to_read_keeps_where_it_began(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic
) -> None:
    """The checkpoint alone says it: `latest` would be another offset at the next start."""
    job = replace(job, start="latest")
    assert [(r.batch_id, r.rows, r.files) for r in run(spark, job)] == [(0, 0, 0)]
    fill(topic, 1)
    assert [r.rows for r in run(spark, job)] == [200]
    assert rows(job)[0]["offset"] == 1000


def test_a_query_that_spark_ended_is_started_again_a_bounded_number_of_times(
    spark: SparkSession, batches: BronzeJob, topic: FakeTopic
) -> None:
    """An error that is none of ours stands for a worker that came too late."""
    failing = [True, True]
    notes: list[str] = []

    def on_batch(report: BatchReport) -> None:
        if failing:
            failing.pop()
            raise OSError("no such worker")

    stream(spark, batches, prepare(batches), on_batch, note=notes.append)
    again = [note.rpartition("; ")[2] for note in notes]
    assert again == [f"starting the query again, {n} of 3 times" for n in (1, 2)]
    assert_whole(batches, topic)

    def always(report: BatchReport) -> None:
        raise OSError("no such worker")

    fill(topic, 1)
    notes.clear()
    with pytest.raises(StrandlineSparkError, match=r"Spark stopped the query: .*has the rest"):
        stream(spark, batches, prepare(batches), always, note=notes.append)
    assert len(notes) == 3


def test_a_task_that_cannot_write_is_named_with_why_and_nothing_is_committed(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, tmp_path: Path
) -> None:
    """What stands in its way is as good as a full disk."""
    prepare(job)
    (tmp_path / "table" / "topic=t").touch()
    with pytest.raises(
        StrandlineSparkError, match=r"that reads t:\d for .* cannot write its files"
    ):
        run(spark, job)
    assert BronzeTable.open(job.table).version == 0
    (tmp_path / "table" / "topic=t").unlink()
    run(spark, job)
    assert_whole(job, topic)


def test_a_driver_that_cannot_commit_is_named_with_why_and_the_job_goes_on_later(
    spark: SparkSession,
    job: BronzeJob,
    topic: FakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commit is there; that it is on disk is seen to by the next run."""
    notes: list[str] = []
    entry, fsync = tmp_path / "table" / "_delta_log" / f"{1:020}.json", os.fsync

    def full(descriptor: int) -> None:
        if entry.exists() and os.readlink(f"/proc/self/fd/{descriptor}") == str(entry.parent):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    start = prepare(job)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StrandlineSparkError, match=rf"^{platform.node()} cannot commit to .*table"):
        stream(spark, job, start, print, note=notes.append)
    assert notes == []
    monkeypatch.undo()
    run(spark, job)
    assert_whole(job, topic)


def test_a_range_that_no_disk_holds_ends_the_query_after_the_first_attempt_of_its_task(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, broker: FakeBroker
) -> None:
    """An attempt waits ten seconds for another leader, and asks fifteen times meanwhile."""
    topic.partitions[0].is_unreadable = True
    notes: list[str] = []
    with pytest.raises(
        StrandlineSparkError, match=r"^t:0 at offset 0 .* is not served.*: damaged on this broker's"
    ):
        stream(spark, job, prepare(job), print, note=notes.append)
    assert broker.calls.count("FetchRange") < 2 * 15
    assert notes == []


def test_a_table_is_compacted_and_vacuumed_while_its_job_runs(
    spark: SparkSession, batches: BronzeJob, topic: FakeTopic
) -> None:
    """Also while a batch is on its way: its file is there, and its commit is not."""
    for partition in topic.partitions:
        partition.on_range = lambda: compact(batches.table)
    done: list[int] = []

    def maintain(report: BatchReport) -> None:
        done.append(compact(batches.table).files_after)
        vacuum(batches.table)

    stream(spark, batches, prepare(batches), maintain)
    assert_whole(batches, topic)
    assert sum(done) > 0


def test_two_topics_share_a_table_and_one_may_join_later(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, broker: FakeBroker
) -> None:
    run(spark, job)
    fill(broker.create("u"), 1)
    run(spark, replace(job, topics=("t", "u")))
    table = BronzeTable.open(job.table)
    assert table.end(TopicPartition("u", 0)) == 100
    assert [one.rows for one in verify(job.table, "u", job.bootstrap)] == [100]


def test_a_topic_that_is_gone_is_named_with_what_was_read_and_a_new_checkpoint_goes_on(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker.create("u"), 1)
    both = replace(job, topics=("t", "u"))
    run(spark, both)
    with pytest.raises(StrandlineSparkError, match=r"u:0 from 100 .*no longer part.*empty path"):
        run(spark, job)
    del broker.topics["u"]
    gone = r"u:0 from 100 on by deletion \(topic u does not exist\).*an empty path for --checkpoint"
    with pytest.raises(DataLoss, match=gone):
        prepare(both)
    # A batch that is planned and not in the table has read nothing yet.
    offsets = tmp_path / "checkpoint" / "offsets"
    last = max(int(one.name) for one in offsets.glob("[0-9]*"))
    (offsets / str(last + 1)).write_text('v1\n{}\n{"t": {"0": 1000, "1": 1000}, "u": {"0": 200}}')
    with pytest.raises(DataLoss, match=gone):
        prepare(both)
    shutil.rmtree(job.checkpoint)
    with pytest.raises(DataLoss, match=gone):
        prepare(both)
    fill(topic, 1)
    assert sum(r.rows for r in run(spark, job)) == 200
    assert all(one.sound for one in verify(job.table, "t", job.bootstrap, complete=True))


def test_what_cannot_work_is_said_before_spark_starts(
    job: BronzeJob, topic: FakeTopic, tmp_path: Path
) -> None:
    with pytest.raises(UnknownTopic, match="nope does not exist"):
        prepare(replace(job, topics=("nope",)))
    with pytest.raises(EnvironmentProblem, match="cannot run nowhere"):
        prepare(replace(job, worker_python="nowhere"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    with pytest.raises(TableError, match="checkpoint of another job"):
        prepare(job)
    assert not (tmp_path / "table").exists()


def test_a_checkpoint_without_a_batch_starts_where_the_job_is_told(
    job: BronzeJob, topic: FakeTopic, tmp_path: Path
) -> None:
    """Spark makes its folders before it plans: a job that ends in between has begun nowhere."""
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    start = json.loads(prepare(replace(job, start="latest")))
    assert start == {"t": {"0": 1000, "1": 1000}}


@pytest.mark.parametrize("line", ['{"t": {"0": "00", "1": 0}}', "no JSON"])
def test_a_checkpoint_that_was_edited_wrongly_is_refused_before_spark_starts(
    job: BronzeJob, topic: FakeTopic, tmp_path: Path, line: str
) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    (offsets / "0").write_text(f"v1\n{{}}\n{line}")
    with pytest.raises(
        TableError, match=r"offsets/0 is not an offset log .*; restore it, or start"
    ):
        prepare(job)


@pytest.mark.parametrize("checkpoint", ["file", "file/c", "c"])
def test_a_checkpoint_that_cannot_be_written_is_said_before_anything_is_made(
    job: BronzeJob, topic: FakeTopic, tmp_path: Path, checkpoint: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "c" / "strandline" / "spark.log").mkdir(parents=True)
    path = str(tmp_path / checkpoint)
    with pytest.raises(OptionError, match=rf"checkpoint {path} cannot be written \(.*: give a fol"):
        prepare(replace(job, checkpoint=path))
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    ("table", "checkpoint"), [("a", "a"), ("a", "a/b/c"), ("a/b", "a"), ("a", "link/c")]
)
def test_a_checkpoint_in_the_table_or_about_it_is_refused(
    table: str, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to("a")
    paths = [f"{tmp_path}/{table}", f"{tmp_path}/{checkpoint}"]
    places = ("--topics", "t", "--table", paths[0], "--checkpoint", paths[1])
    with pytest.raises(SystemExit) as ended:
        main(["ingest", "bronze", "--bootstrap", "127.0.0.1:1", *places])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: --checkpoint {paths[1]!r} and --table {paths[0]!r} are one")
    assert not (tmp_path / "a").exists()


def test_a_checkpoint_of_another_table_is_refused(
    spark: SparkSession, job: BronzeJob, topic: FakeTopic, tmp_path: Path
) -> None:
    run(spark, job)
    with pytest.raises(TableError, match="of another job or of another table"):
        prepare(replace(job, table=str(tmp_path / "other")))


def test_a_session_writes_checkpoints_without_starting_other_programs(spark: SparkSession) -> None:
    """Fails when a version of Spark has the class elsewhere: `session.py` names it."""
    chosen = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", None)
    assert chosen is not None
    assert chosen.endswith(".FileSystemBasedCheckpointFileManager")
