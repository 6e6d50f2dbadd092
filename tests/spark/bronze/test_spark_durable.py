"""What is on disk when Spark's commit log moves on, and that nothing is committed that the driver
does not see.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.columns import FILE_SCHEMA, BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.micro_batch import BatchReport, MicroBatchWriter, app_id
from strandline_spark.bronze.task_files import BronzeSource, write_range
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import EnvironmentProblem, OptionError, TableError
from strandline_spark.source.options import parse_options
from strandline_spark.source.splitting import PlannedRange

if TYPE_CHECKING:
    from support.fake_broker_sync import FakeBroker

DRAFT: Final = re.compile(r"\.[0-9a-f]{16}\.tmp$")
ID: Final = topic_id_text(bytes(16))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    paths: list[str] = []

    def fsync(descriptor: int) -> None:
        # An entry of the log gets its name, by a link, once its content is synced.
        paths.append(DRAFT.sub("", os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def file_of(root: str, batch_id: int, rows: int = 5) -> DataFile:
    """A file with the next offsets of partition 0, where a task of `far` put it."""
    BronzeTable.open_or_create(root)
    path = f"topic=t/ingest_date=2026-01-01/{batch_id}.parquet"
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    first = 5 * batch_id
    offsets = range(first, first + rows)
    data = [{"partition": 0, "offset": n, "leader_epoch": 0, "batch_id": 0} for n in offsets]
    pq.write_table(pa.Table.from_pylist(data, schema=FILE_SCHEMA), os.path.join(root, path))
    size = os.path.getsize(os.path.join(root, path))
    return DataFile(path, size, "t", "2026-01-01", 0, 5, first, first + 4, 0, 0, "far")


def commit(root: str, batch_id: int, file: DataFile) -> None:
    first = 5 * batch_id
    taken = CommittedRange("t", ID, 0, first, first + 5, rows=5, skipped=0, leader_epoch=0)
    BronzeTable.open_or_create(root).commit("j", batch_id, [taken], [file])


def test_a_task_syncs_its_file_and_all_names_on_the_way_to_it(
    broker: FakeBroker, root: str, synced: list[str]
) -> None:
    topic = broker.create("t")
    topic.partitions[0].append([(b"k", b"v")] * 5)
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, 0, 5, 0)
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    manifest = write_range(options, planned, root, 0)
    path = os.path.join(root, manifest["path"])
    assert synced[0] == path
    assert set(synced[1:]) == {os.path.dirname(path), os.path.dirname(os.path.dirname(path)), root}
    assert manifest["host"] == os.uname().nodename


def test_a_log_that_cannot_be_written_is_named_with_the_machine_and_why(root: str) -> None:
    """A file in the log's place is as good as a full disk."""
    table = BronzeTable.open_or_create(root)
    log = Path(root, "_delta_log")
    shutil.rmtree(log)
    log.touch()
    with pytest.raises(TableError, match=rf"^{platform.node()} cannot commit to {root} \("):
        table.commit("j", 0, [], [])
    with pytest.raises(TableError, match=r"cannot commit to .*Not a directory"):
        table.sync_log()


def test_a_commit_is_on_disk_when_it_returns(root: str, synced: list[str]) -> None:
    log = os.path.join(root, "_delta_log")
    file = file_of(root, 0)
    # The table's creation: its first entry, and the name of the table itself.
    assert synced == [os.path.join(log, f"{0:020}.json"), log, root, os.path.dirname(root)]
    synced.clear()
    commit(root, 0, file)
    assert synced == [os.path.join(log, f"{1:020}.json"), log, root]
    for batch_id in range(1, 25):
        file = file_of(root, batch_id)
        synced.clear()
        commit(root, batch_id, file)
        made = {entry for entry in os.listdir(log) if entry.startswith(f"{batch_id + 1:020}")}
        assert {os.path.join(log, name) for name in made} <= set(synced)
        assert synced[:3] == [os.path.join(log, f"{batch_id + 1:020}.json"), log, root]
        if len(made) > 1:
            assert synced[-2:] == [os.path.join(log, "_last_checkpoint"), log]
    assert "_last_checkpoint" in os.listdir(log)


def frame_of(query: str | None) -> Any:
    """What the writer asks of a frame before it collects it."""
    context = SimpleNamespace(getLocalProperty=lambda name: query)
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))


def writer_on(root: str, checkpoint: Path, reports: list[BatchReport]) -> MicroBatchWriter:
    (checkpoint / "offsets").mkdir(parents=True)
    starts = f'"@lineage": {{"t": {{"id": "{ID}", "starts": {{"0": 0}}}}}}'
    (checkpoint / "offsets" / "0").write_text(f'v1\n{{}}\n{{"t": {{"0": 5}}, {starts}}}')
    return MicroBatchWriter(
        table_path=root,
        checkpoint=str(checkpoint),
        offsets_file=str(checkpoint / "none"),
        direct=True,
        on_batch=reports.append,
    )


def test_a_batch_that_another_process_committed_is_on_disk_before_it_is_skipped(
    root: str, tmp_path: Path, synced: list[str]
) -> None:
    taken = CommittedRange("t", ID, 0, 0, 5, rows=5, skipped=0, leader_epoch=0)
    BronzeTable.open_or_create(root).commit(app_id("q"), 0, [taken], [file_of(root, 0)])
    synced.clear()
    reports: list[BatchReport] = []
    writer_on(root, tmp_path / "c", reports)(frame_of("q"), 0)
    assert reports[0].skipped
    log = os.path.join(root, "_delta_log")
    assert {os.path.join(log, f"{1:020}.json"), log} <= set(synced)


def test_a_frame_of_no_stream_is_refused(root: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="for streaming queries alone"):
        writer_on(root, tmp_path / "c", [])(frame_of(None), 0)
    with pytest.raises(OptionError, match="tablePath is required"):
        BronzeSource({"bootstrap.servers": "h:1", "subscribe": "t"})


def test_a_file_that_the_driver_does_not_see_is_named_with_its_machine(root: str) -> None:
    file = file_of(root, 0)
    path = Path(root, file.path)
    path.rename(path.with_suffix(".elsewhere"))
    with pytest.raises(TableError, match=rf"far wrote {path} .*every worker must have the table's"):
        commit(root, 0, file)
    assert BronzeTable.open(root).version == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"size": 1}, r"wrote .* \(1 bytes\), and here it has \d+ bytes"),
        ({"rows": 4}, "5 rows, not 4"),
    ],
)
def test_a_file_that_is_not_what_the_task_wrote_is_not_committed(
    root: str, change: dict[str, int], why: str
) -> None:
    file = replace(file_of(root, 0), **change)  # type: ignore[arg-type]
    with pytest.raises(TableError, match=f"{why}; nothing was committed"):
        commit(root, 0, file)
    assert BronzeTable.open(root).version == 0


def test_a_file_of_zeros_is_not_committed(root: str) -> None:
    """What a loss of power leaves of a file that was not synced."""
    file = file_of(root, 0)
    Path(root, file.path).write_bytes(bytes(file.size))
    with pytest.raises(TableError, match=r"does not read here .*; nothing was committed"):
        commit(root, 0, file)
