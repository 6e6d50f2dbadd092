"""`compact` and `vacuum`: files change, rows do not, and a job beside them neither fails nor loses
anything.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.bronze import compaction
from strandline_spark.bronze.audit import AuditCopier, audit_path
from strandline_spark.bronze.columns import WRITER_OPTIONS, BronzeTable
from strandline_spark.bronze.compaction import Fence, compact
from strandline_spark.bronze.vacuum import vacuum
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.commands.main import main
from strandline_spark.commands.tables import kept_hours
from strandline_spark.delta_log import commit as delta_commit
from strandline_spark.delta_log.commit import Change
from strandline_spark.errors import OptionError, TableError
from support.spark_tables import DAY, commit, take, taken, values_in, write_file, written

if TYPE_CHECKING:
    from collections.abc import Callable

WEEKS_AGO = time.time() - 30 * 24 * 3600


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A table of three files, offsets 0 to 30, in a folder whose name needs quoting."""
    path = str(tmp_path / "a table%")
    for start in (0, 10, 20):
        take(path, start, start + 10)
    return path


def files(root: str) -> list[str]:
    return sorted(BronzeTable.open(root).file_paths())


def on_disk(root: str) -> set[str]:
    return {f"{DAY}/{name}" for name in os.listdir(os.path.join(root, DAY))}


def age(root: str, *paths: str) -> None:
    for path in paths:
        os.utime(os.path.join(root, path), (WEEKS_AGO, WEEKS_AGO))


def sound(root: str) -> bool:
    return all(one.sound for one in verify(root, "t", None))


def while_merging(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """What happens after the first compaction has read its files and before it commits."""
    merge = compaction._merge

    def and_then(table: BronzeTable, group: list[compaction._Small], path: str) -> None:
        monkeypatch.setattr(compaction, "_merge", merge)
        merge(table, group, path)
        act()

    monkeypatch.setattr(compaction, "_merge", and_then)


def test_many_files_become_one_with_the_same_rows_in_order(root: str) -> None:
    file = write_file(root, [30, 31, 33], epochs=[1] * 3)
    commit(root, 3, taken(30, 34, rows=3, skipped=1), file)
    before = BronzeTable.open(root)
    done = compact(root)
    assert (done.files_before, done.files_after, done.rows) == (4, 1, 33)
    assert values_in(root) == [*written(0, 32), *written(33, 34)]
    (path,) = files(root)
    own = pq.read_table(os.path.join(root, path)).column("offset").to_pylist()
    assert own == sorted(own)
    assert sound(root)
    table = BronzeTable.open(root)
    assert (table.end(TopicPartition("t", 0)), table.committed_batch("j")) == (34, 3)
    stats = table.delta.get_add_actions(flatten=True)
    bounds = {name: stats.column(name)[0].as_py() for name in ("min.offset", "max.offset")}
    assert bounds == {"min.offset": 0, "max.offset": 33}
    # A reader of the version before still finds its files.
    assert before.delta.to_pyarrow_table().num_rows == 33
    assert compact(root).files_before == 0


def test_what_is_written_fast_is_packed_tighter_by_a_compaction(root: str) -> None:
    assert WRITER_OPTIONS["compression"] == "snappy"
    compact(root)
    (path,) = files(root)
    group = pq.ParquetFile(os.path.join(root, path)).metadata.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"ZSTD"}


def test_large_files_stay_and_groups_end_at_the_target(root: str) -> None:
    size = os.path.getsize(os.path.join(root, files(root)[0]))
    assert compact(root, size // 2).files_before == 0
    for start in (30, 40):
        take(root, start, start + 10)
    done = compact(root, 2 * size - 20)
    assert (done.files_before, done.files_after) == (4, 2)
    assert values_in(root) == written(0, 50)


def test_a_job_that_commits_meanwhile_neither_fails_nor_loses_anything(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_merging(monkeypatch, lambda: take(root, 30, 40))
    assert compact(root).files_after == 1
    assert (values_in(root), len(files(root)), sound(root)) == (written(0, 40), 2, True)
    # A job whose handle is older than the compaction and the vacuum commits as well.
    job = BronzeTable.open(root)
    compact(root)
    vacuum(root)
    job.commit("j", 4, [taken(40, 50)], [write_file(root, list(range(40, 50)))])
    assert (values_in(root), sound(root)) == (written(0, 50), True)


def test_what_a_killed_job_of_dataframe_mode_left_goes_unless_it_may_still_be_committed(
    root: str,
) -> None:
    """A job that runs has changed one of its files or folders since, or its offsets come next."""
    staged = "_staging/a-query/topic=t/part-0.parquet"
    half = "_staging/a-query/_temporary/0/topic=t/part-1.parquet"
    names = [
        staged,
        half,
        "_staging/a-query/topic=t/.part-0.parquet.crc",
        "_staging/a-query/_SUCCESS",
    ]
    for name in names:
        Path(root, name).parent.mkdir(parents=True, exist_ok=True)
        Path(root, name).touch()
    os.replace(os.path.join(root, write_file(root, [30, 31]).path), os.path.join(root, staged))
    everything = [str(one.relative_to(root)) for one in Path(root, "_staging").rglob("*")]
    assert vacuum(root).files == []
    age(root, *everything)
    Path(root, names[-1]).touch()
    assert vacuum(root).files == []
    age(root, *everything)
    with pytest.raises(TableError, match=rf"may be about to commit {half}, {staged}, older"):
        vacuum(root, kept_hours=1)
    take(root, 30, 40)
    with pytest.raises(TableError, match=rf"may be about to commit {half}, older than 1 h"):
        vacuum(root, kept_hours=1)
    os.unlink(os.path.join(root, half))
    age(root, os.path.dirname(half))
    assert vacuum(root, kept_hours=1, dry_run=True).files == sorted({*names} - {half})
    assert set(vacuum(root, kept_hours=1).files) == {*names} - {half}
    assert not os.path.exists(os.path.join(root, "_staging"))
    assert sound(root)


@pytest.mark.parametrize("other", [compact, vacuum])
def test_of_two_at_once_the_later_is_refused_and_leaves_nothing(
    root: str, monkeypatch: pytest.MonkeyPatch, other: Callable[[str], object]
) -> None:
    while_merging(monkeypatch, lambda: other(root))
    with pytest.raises(TableError, match=r"another compact or vacuum .* run one at a time"):
        compact(root)
    assert (values_in(root), sound(root)) == (written(0, 30), True)
    assert {path for path in on_disk(root) if "compact-" in path} <= set(files(root))
    compact(root)
    assert len(files(root)) == 1


def test_a_maintenance_that_slips_in_between_two_commits_is_noticed(root: str) -> None:
    table = BronzeTable.open(root)
    fence = Fence(table)
    fence.commit(Change())
    Fence(BronzeTable.open(root)).commit(Change())
    table.refresh()
    with pytest.raises(TableError, match="another compact or vacuum"):
        fence.commit(Change())


def test_new_files_are_on_disk_before_they_count(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        # An entry of the log gets its name once its content is synced.
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}").partition(".json.")[0])

    monkeypatch.setattr(os, "fsync", fsync)
    compact(root)
    file = os.path.join(root, files(root)[0])
    entry = BronzeTable.open(root).log_entry(BronzeTable.open(root).version)
    assert (
        synced.index(file)
        < synced.index(os.path.dirname(file))
        < synced.index(entry.removesuffix(".json"))
    )


def test_a_file_that_does_not_hold_what_the_log_says_stops_a_compaction(root: str) -> None:
    first = os.path.join(root, files(root)[0])
    pq.write_table(pq.read_table(first).slice(1), first)
    with pytest.raises(TableError, match=r"hold 29 rows, not the 30 that the log says"):
        compact(root)
    os.unlink(first)
    with pytest.raises(TableError, match=r"1 of 3 files .* are not there"):
        compact(root)
    assert {path for path in on_disk(root) if "compact-" in path} == set()


@pytest.mark.parametrize(
    ("command", "where"), [("compact", "a new file"), ("compact", "the log"), ("vacuum", "the log")]
)
def test_a_full_disk_is_called_so_and_changes_nothing(
    root: str,
    command: str,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = (files(root), on_disk(root))

    def full(*_: object, **__: object) -> None:
        raise OSError("Generic error\n  \x1b[31m↳\x1b[0m Unable to copy\n  ↳ No space left")

    if where == "the log":
        monkeypatch.setattr(delta_commit, "write_new", full)
        monkeypatch.setattr(AuditCopier, "copy", lambda *_: 0)
    else:
        monkeypatch.setattr(compaction, "_write", full)
    with pytest.raises(SystemExit) as ended:
        main([command, root])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    (line,) = said.err.splitlines()
    assert line.startswith(
        f"error: {root} cannot be written (Generic error: No space left): make room"
    )
    assert line.endswith("this commit changed nothing, run the command again")
    assert (files(root), on_disk(root)) == before
    monkeypatch.undo()
    compact(root)
    assert values_in(root) == written(0, 30)


def test_a_commit_that_may_not_last_is_not_said_to_have_changed_nothing(
    root: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left")

    monkeypatch.setattr(delta_commit, "sync", full)
    with pytest.raises(SystemExit) as ended:
        main(["compact", root])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert f"cannot commit to {root} (No space left): make room" in line
    assert line.endswith("run this again then, it goes on where the table ends")
    monkeypatch.undo()
    compact(root)
    assert values_in(root) == written(0, 30)


@pytest.mark.parametrize(
    ("command", "interrupted", "said"),
    [
        (
            "compact",
            "strandline_spark.maintenance.compaction.compact",
            "the other files are unchanged",
        ),
        ("vacuum", "strandline_spark.bronze.vacuum.vacuum", "no row of the table is touched"),
        ("lag", "strandline_spark.bronze.checkpoint_lag.checkpoint_lag", "nothing was changed"),
        ("verify", "strandline_spark.bronze.verify.verify", "nothing is proven"),
    ],
)
def test_an_interrupted_command_says_what_it_leaves(
    root: str,
    command: str,
    interrupted: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupted, interrupt)
    of_command = {"lag": ["--bootstrap", "127.0.0.1:1"], "verify": ["t"]}
    with pytest.raises(SystemExit) as ended:
        main([command, root, *of_command.get(command, [])])
    assert ended.value.code == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("interrupted; ")
    assert said in last


def test_what_is_out_of_the_table_for_long_goes_and_the_rest_stays(root: str) -> None:
    orphan, young = write_file(root, [7]).path, write_file(root, [8]).path
    age(root, orphan, *files(root))
    AuditCopier(root).copy(BronzeTable.open(root))
    for path in Path(audit_path(root)).glob("*.parquet"):
        os.utime(path, (WEEKS_AGO, WEEKS_AGO))
    assert vacuum(root, dry_run=True).files == [orphan]
    version = BronzeTable.open(root).version
    done = vacuum(root)
    assert (done.files, done.size > 0) == ([orphan], True)
    assert done.version > version
    assert on_disk(root) == {young, *files(root)}
    assert (values_in(root), sound(root)) == (written(0, 30), True)
    assert list(Path(audit_path(root)).glob("*.parquet"))


def test_what_a_table_has_not_written_stays(root: str) -> None:
    others = ["offsets/0", "metadata", "t.parquet", "topic=t/0", "other/topic=t/0.parquet"]
    for path in others:
        Path(root, path).parent.mkdir(exist_ok=True, parents=True)
        Path(root, path).touch()
    orphan = write_file(root, [7]).path
    age(root, orphan, *others)
    assert vacuum(root, dry_run=True).files == [orphan]
    assert vacuum(root).files == [orphan]
    assert not Path(root, orphan).exists()
    assert all(Path(root, path).exists() for path in others)


def test_a_file_that_cannot_be_removed_is_named(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted(write_file(root, [n]).path for n in (7, 8))
    age(root, first, second)
    unlink = os.unlink

    def refused(path: str) -> None:
        if path.endswith(second):
            raise PermissionError(13, "Permission denied", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(TableError, match=f"Permission denied.*{second}.*; 1 of 2 files were rem"):
        vacuum(root)
    monkeypatch.undo()
    assert first not in on_disk(root)
    assert second in on_disk(root)


def test_replaced_files_stay_for_their_readers_first(root: str) -> None:
    old = set(files(root))
    age(root, *old)
    compact(root)
    assert vacuum(root).files == []
    # Nothing is kept: what the command itself refuses, a test of what the log says.
    assert set(vacuum(root, kept_hours=0).files) == old
    assert (values_in(root), sound(root)) == (written(0, 30), True)


def test_a_file_that_a_job_may_still_commit_stays_if_less_than_a_week_is_kept(root: str) -> None:
    table = BronzeTable.open(root)
    ahead = write_file(root, list(range(30, 40)))
    failed = write_file(root, list(range(20, 30)))
    half = os.path.join(root, DAY, "half.parquet")
    Path(half).write_bytes(b"PAR1")
    hours_ago = time.time() - 3 * 3600
    for path in (ahead.path, failed.path, half):
        os.utime(os.path.join(root, path), (hours_ago, hours_ago))
    with pytest.raises(TableError, match=r"may be about to commit .* nothing was removed"):
        vacuum(root, kept_hours=1)
    assert ahead.path in on_disk(root)
    assert vacuum(root).files == []
    os.unlink(half)
    with pytest.raises(TableError, match=f"about to commit {ahead.path}, older than 1 h"):
        vacuum(root, kept_hours=1)
    table.commit("j", 3, [taken(30, 40)], [ahead])
    assert vacuum(root, kept_hours=1).files == [failed.path]
    assert values_in(root) == written(0, 40)


def test_the_commands_say_what_they_did(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        out, err = capsys.readouterr()
        return ended.value.code, out + err

    orphan = write_file(root, [7]).path
    age(root, orphan)
    assert run("vacuum", root, "--dry-run")[1].splitlines()[0] == orphan
    status, out = run("vacuum", root, "--format", "json")
    assert (status, json.loads(out)["files"], json.loads(out)["dry_run"]) == (0, [orphan], False)
    assert "3 files became 1, 30 rows" in run("compact", root)[1]
    assert "nothing to compact" in run("compact", root)[1]
    status, out = run("compact", root, "--format", "json")
    assert (status, json.loads(out)["files_after"]) == (0, 0)
    for wrong in (
        ("compact", f"{root}-none"),
        ("vacuum", f"{root}-none", "--dry-run"),
        ("compact", root, "--target-bytes", "0"),
        ("vacuum", root, "--keep", "0h"),
        ("vacuum", root, "--keep", "soon"),
    ):
        status, out = run(*wrong)
        assert (status, out.startswith("error: "), len(out.splitlines())) == (1, True, 1), out


@pytest.mark.parametrize(("text", "hours"), [("1h", 1), ("36h", 36), ("7d", 168)])
def test_what_is_kept_is_hours_or_days(text: str, hours: int) -> None:
    assert kept_hours(text) == hours
    with pytest.raises(OptionError, match="at least 1h"):
        kept_hours(f"-{text}")
