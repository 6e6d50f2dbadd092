"""Checkpoints whose files are missing, empty, cut off or of other content: what Spark would stumble
over is said before it starts, in one line with what to do, and doing that gives a whole table.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.bronze.bronze import BronzeJob, prepare, stream
from strandline_spark.bronze.checkpoint import read_checkpoint
from strandline_spark.commands.main import main
from strandline_spark.errors import TableError
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker

METADATA: Final = b'{"id":"q"}'
COMMIT: Final = b'v1\n{"nextBatchWatermarkMs":0}'
OFFSETS: Final = b'v1\n{"batchWatermarkMs":0}\n{"t":{"0":%d}}'
BAD: Final[dict[str, bytes | None]] = {
    "empty": b"",
    "blank": b"\n",
    "zeros": bytes(50),
    "garbage": b"\xff\xfe\x00garbage",
    "of one line": b"v1",
    "cut off": b'v1\n{"nextBat',
    "cut off behind the second line": b'v1\n{"batchWatermarkMs":0}\n{"t":{"0"',
    "of no version": b'{"nextBatchWatermarkMs":0}',
    "of a later version": b'v9\n{}\n{"t":{"0":1}}',
    "of another shape": b"v1\n[]\n[]",
    "a folder": None,
}
NEW: Final = " checkpoint: move {cp} away and start the job again, it goes on where its tables end"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of three batches that are done, as Spark leaves it."""
    folder = tmp_path / "cp"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_bytes(METADATA)
    for n in range(3):
        (folder / "offsets" / str(n)).write_bytes(OFFSETS % (n + 1))
        (folder / "commits" / str(n)).write_bytes(COMMIT)
        (folder / "commits" / f".{n}.1234.tmp").write_bytes(b"")
    return folder


def spoil(path: Path, content: bytes | None) -> None:
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


def refusal(checkpoint: Path) -> str:
    with pytest.raises(TableError) as refused:
        read_checkpoint(str(checkpoint))
    (line,) = str(refused.value).splitlines()
    return line.replace(str(checkpoint), "{cp}")


def test_a_sound_one_says_what_was_planned_and_what_is_done(checkpoint: Path) -> None:
    found = read_checkpoint(str(checkpoint))
    assert found is not None
    assert (found.query, found.planned, found.done) == ("q", (0, 1, 2), (0, 1, 2))
    assert list(found.end(2).ends.values()) == [3]
    # Neither does Spark need older files, nor the last one of a batch that was cut off.
    for name in ("offsets/0", "commits/0", "commits/1", "commits/2"):
        (checkpoint / name).unlink()
    found = read_checkpoint(str(checkpoint))
    assert found is not None
    assert found.done == ()


def test_one_that_no_query_has_used_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file", "file/c", "."):
        assert read_checkpoint(str(tmp_path / name)) is None


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_batch_whose_commit_does_not_read_is_named_and_may_be_run_again(
    checkpoint: Path, content: bytes | None
) -> None:
    spoil(checkpoint / "commits" / "2", content)
    line = refusal(checkpoint)
    assert line.startswith("{cp}/commits/2, by which Spark knows that batch 2 is done, does not ")
    assert line.endswith(
        "put it back from a copy, or remove it, and the batch is run again, which the job's tables"
        " take once"
    )


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_offsets_that_do_not_read_are_named(
    checkpoint: Path, content: bytes | None, batch: int
) -> None:
    spoil(checkpoint / "offsets" / str(batch), content)
    line = refusal(checkpoint)
    assert line.startswith(f"{{cp}}/offsets/{batch} is not an offset log of one source, version 1")
    assert line.endswith(f"; restore it, or start a new{NEW}")


@pytest.mark.parametrize("content", [*BAD.values(), b"{}", b'{"id":""}', b'{"id":7}', b"[]"])
def test_an_id_of_a_query_that_does_not_read_is_named(
    checkpoint: Path, content: bytes | None
) -> None:
    spoil(checkpoint / "metadata", content)
    line = refusal(checkpoint)
    assert line.startswith("{cp}/metadata, in which Spark keeps the query's id, does not read (")
    assert line.endswith(f": put it back from a copy, or start a new{NEW}")


@pytest.mark.parametrize("gone", ["metadata", "offsets/2", "offsets/1", "offsets"])
def test_what_is_gone_is_named(checkpoint: Path, gone: str) -> None:
    path = checkpoint / gone
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    named = "offsets/2" if gone == "offsets" else gone
    assert refusal(checkpoint) == (
        f"{{cp}}/{named} is not there, from which Spark goes on: put it back from a copy, or start"
        f" a new{NEW}"
    )


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_a_file_in_the_place_of_a_folder_is_named(checkpoint: Path, name: str) -> None:
    shutil.rmtree(checkpoint / name)
    (checkpoint / name).write_text("x")
    assert refusal(checkpoint).startswith(
        f"{{cp}}/{name}, a folder of Spark's, does not read (Not a directory): put it back"
    )


@pytest.mark.spark
def test_every_command_that_reads_one_says_so_before_spark_starts_and_its_remedy_helps(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = broker.create("t")
    topic.partitions[0].append([(b"k", b'{"n": 1}')] * 6)
    folder = str(tmp_path)
    job = BronzeJob(
        bootstrap=broker.address,
        topics=("t",),
        table=f"{folder}/lake/bronze",
        checkpoint=f"{folder}/lake/_checkpoint",
        max_offsets_per_trigger=2,
    )
    stream(spark, job, prepare(job), lambda report: None)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    cluster = ("--bootstrap", broker.address)
    places = ("--topics", "t", "--table", job.table, "--checkpoint", job.checkpoint)

    def check_refused(file: Path) -> None:
        """Changed behind Spark's back: the checksums beside it are those of before."""
        file.write_bytes(file.read_bytes().replace(b"{", b"{ ", 1))
        for command in (
            ("lag", job.checkpoint, *cluster),
            ("ingest", "bronze", *cluster, *places),
        ):
            with pytest.raises(SystemExit):
                main(command)
            line = capsys.readouterr().err.splitlines()[-1]
            assert line.startswith(f"error: {file}")
            assert f"by the checksums in .{file.name}.crc beside it: if it was changed by" in line

    def goes_on(offsets: int) -> None:
        topic.partitions[0].append([(b"k", b'{"n": 1}')] * 2)
        stream(spark, job, prepare(job), lambda report: None)
        assert [row[0] for row in rows_of(job.table, "offset")] == list(range(offsets))

    checkpoint = tmp_path / "lake" / "_checkpoint"
    for name in ("offsets/1", "metadata"):
        whole = (checkpoint / name).read_bytes()
        check_refused(checkpoint / name)
        (checkpoint / name).write_bytes(whole)
    check_refused(checkpoint / "commits" / "2")
    (checkpoint / "commits" / "2").unlink()
    goes_on(8)
    check_refused(checkpoint / "offsets" / "3")
    shutil.move(job.checkpoint, tmp_path / "away")
    goes_on(10)


PIPELINE: Final = """
[pipeline]
name = "p"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
n = "bigint"
"""


@pytest.mark.spark
def test_a_pipelines_checkpoint_without_its_offsets_is_refused_and_a_new_one_goes_on(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = broker.create("t")
    topic.partitions[0].append([(b"k", b'{"n": 1}')] * 6)
    pipeline = of_file(PIPELINE, tmp_path)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    run_pipeline_once(spark, pipeline, broker.address)
    for name in ("offsets", "commits"):
        shutil.rmtree(f"{pipeline.checkpoint}/{name}")
    for command in (["run"], ["ingest", "silver"]):
        with pytest.raises(SystemExit):
            main([*command, str(tmp_path / "pipeline.toml"), "--bootstrap", broker.address])
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith(f"error: {pipeline.checkpoint}/offsets/N is not there")
    topic.partitions[0].append([(b"k", b'{"n": 2}')] * 2)
    run_pipeline_once(spark, replace(pipeline, checkpoint=str(tmp_path / "new")), broker.address)
    assert rows_of(pipeline.silver, "offset", "n") == [(n, 1 + (n > 5)) for n in range(8)]
