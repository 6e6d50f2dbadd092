"""The bronze table's commits and fences, and what `verify` finds in tables that are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.bronze.audit import AuditCopier, last_ranges
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.commands.main import main
from strandline_spark.errors import FenceError, TableError, UnknownTopic
from strandline_spark.maintenance import removals
from strandline_spark.verification.runs import Run, fold
from support.command import clean_environ
from support.spark_tables import ID, clean_log, commit, take, taken, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.fake_broker_sync import FakeBroker

T0 = TopicPartition("t", 0)


BY_US: dict[str, Any] = {"format": 4, "job": "j", "batch_id": 1}


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "a table%")


def sound_table(root: str) -> None:
    """Offsets 0 to 20 in two commits."""
    table = BronzeTable.open_or_create(root)
    table.commit("j", 0, [taken(0, 10)], [write_file(root, list(range(10)))])
    table.commit("j", 1, [taken(10, 20)], [write_file(root, list(range(10, 20)))])


def test_a_commit_carries_batch_fence_and_account_together(root: str) -> None:
    sound_table(root)
    table = BronzeTable.open(root)
    assert table.committed_batch("j") == 1
    assert table.committed_batch("other") is None
    assert table.end(T0) == 20
    assert last_ranges(table, {T0})[T0] == taken(10, 20)
    found = [(c.version, c.job, c.batch_id, c.ranges[0].start) for c in table.commits()]
    assert found == [(2, "j", 1, 10), (1, "j", 0, 0)]
    assert table.version == 2


@pytest.mark.parametrize(
    "metadata",
    [
        7,
        "{",
        [],
        {},
        {"format": 5, "job": "j", "batch_id": 0, "ranges": []},
        {"format": 1, "ranges": []},
        {"format": 1, "job": "j", "batch_id": "0", "ranges": []},
        BY_US | {"ranges": [{"topic": "t"}]},
        BY_US | {"ranges": [asdict(taken(9, 3))]},
        BY_US | {"ranges": [asdict(taken(0, 3)) | {"start": "0"}]},
        BY_US | {"ranges": [asdict(taken(0, 3)) | {"topic_id": "?"}]},
        BY_US | {"ranges": [asdict(taken(0, 3)) | {"offset_min": 9}]},
        BY_US | {"ranges": [asdict(taken(0, 3)) | {"size": "1"}]},
    ],
)
def test_a_commit_of_another_writer_is_named_with_its_remedy(root: str, metadata: Any) -> None:
    sound_table(root)
    entry = os.path.join(root, "_delta_log", f"{2:020}.json")
    lines = [json.loads(line) for line in Path(entry).read_text().splitlines()]
    lines[0]["commitInfo"]["strandline"] = metadata
    Path(entry).write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(TableError, match=f"{2:020}.json is no commit .*ingest into a new table"):
        last_ranges(BronzeTable.open(root), {T0})


def test_a_log_that_changes_behind_the_handle_is_no_traceback(root: str) -> None:
    sound_table(root)
    table = BronzeTable.open(root)
    Path(root, "_delta_log", f"{2:020}.json").write_text("garbage")
    with pytest.raises(TableError, match="_delta_log does not read"):
        table.commits()


def test_of_two_drivers_of_one_job_the_later_commit_is_refused(root: str) -> None:
    sound_table(root)
    first, second = BronzeTable.open(root), BronzeTable.open(root)
    file = write_file(root, list(range(20, 30)))
    first.commit("j", 2, [taken(20, 30)], [file])
    with pytest.raises(TableError, match="another writer"):
        second.commit("j", 2, [taken(20, 30)], [file])


def test_of_two_jobs_on_one_partition_the_later_commit_is_refused(root: str) -> None:
    sound_table(root)
    first, second = BronzeTable.open(root), BronzeTable.open(root)
    first.commit("j", 2, [taken(20, 30)], [write_file(root, list(range(20, 30)))])
    with pytest.raises(TableError, match="one job for each topic"):
        second.commit("k", 0, [taken(20, 30)], [write_file(root, list(range(20, 30)))])
    assert BronzeTable.open(root).delta.count() == 30


def test_jobs_on_different_partitions_commit_beside_each_other(root: str) -> None:
    sound_table(root)
    first, second = BronzeTable.open(root), BronzeTable.open(root)
    first.commit("j", 2, [taken(20, 30)], [write_file(root, list(range(20, 30)))])
    other = CommittedRange("u", ID, 0, 0, 5, rows=0, skipped=5, leader_epoch=0)
    second.commit("k", 0, [other], [])
    assert BronzeTable.open(root).end(TopicPartition("u", 0)) == 5


@pytest.mark.parametrize(("start", "word"), [(19, "doubled"), (21, "lost")])
def test_a_batch_that_does_not_start_where_the_table_ends_is_fenced(
    root: str, start: int, word: str
) -> None:
    sound_table(root)
    with pytest.raises(FenceError, match=f"up to offset 20, .* at {start}: .* {word}.*--from"):
        BronzeTable.open(root).check_fence(T0, start)
    BronzeTable.open(root).check_fence(T0, 20)
    BronzeTable.open(root).check_fence(TopicPartition("t", 9), 777)


def test_a_batch_counts_as_held_only_if_the_table_reaches_as_far(root: str) -> None:
    sound_table(root)
    table = BronzeTable.open(root)
    table.check_held(T0, 20, last=True)
    table.check_held(T0, 10, last=False)
    for tp, end, last in ((T0, 10, True), (T0, 21, False), (TopicPartition("u", 0), 1, False)):
        with pytest.raises(FenceError, match="would end at"):
            table.check_held(tp, end, last=last)


def test_the_fence_outlives_checkpoints_of_the_log_and_compaction(root: str) -> None:
    sound_table(root)
    table = BronzeTable.open(root)
    table.delta.optimize.compact()
    table.delta.create_checkpoint()
    for name in os.listdir(os.path.join(root, "_delta_log")):
        if name.endswith(".json") and int(name[:20]) < 3:
            os.unlink(os.path.join(root, "_delta_log", name))
    assert BronzeTable.open(root).end(T0) == 20
    assert all(one.sound for one in verify(root, "t", None))


def test_what_is_no_bronze_table_is_refused(root: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="is no Delta table"):
        BronzeTable.open(root)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for taken_path in (tmp_path / "full", tmp_path / "full" / "x"):
        with pytest.raises(TableError, match="give an empty path"):
            BronzeTable.open_or_create(str(taken_path))
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    for path in (tmp_path / "full" / "x" / "y", tmp_path / "dangling", tmp_path / ("n" * 300)):
        with pytest.raises(TableError, match=rf"table {path} cannot be made \(.*may write") as why:
            BronzeTable.open_or_create(str(path))
        assert len(str(why.value).splitlines()) == 1
    from deltalake import write_deltalake

    write_deltalake(root, pa.table({"a": [1]}))
    with pytest.raises(TableError, match="not a bronze table"):
        BronzeTable.open(root)


def test_a_sound_table_is_sound(root: str) -> None:
    sound_table(root)
    (found,) = verify(root, "t", None)
    assert found.sound
    assert (found.rows, found.first_offset, found.end_offset) == (20, 0, 20)
    assert (found.gaps, found.doubles, found.skipped) == (0, 0, 0)


def test_offsets_that_a_commit_counted_as_empty_are_no_gap(root: str) -> None:
    commit(root, 0, taken(0, 10, rows=8, skipped=2), write_file(root, [0, 1, 2, 3, 5, 6, 7, 9]))
    (found,) = verify(root, "t", None)
    assert found.sound
    assert found.skipped == 2


def problems(root: str) -> str:
    (found,) = verify(root, "t", None)
    assert not found.sound
    return " | ".join(found.problems)


def test_a_missing_row_is_a_gap(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, [0, 1, 2, 3, 5, 6, 7, 8, 9]))
    assert "1 offsets have no row" in problems(root)
    assert "committed with 10 rows, 9 are there" in problems(root)


def test_a_hole_in_dataframe_mode_is_a_gap(root: str) -> None:
    commit(root, 0, taken(0, 10, rows=9, skipped=None), write_file(root, list(range(9))))
    assert "1 offsets have no row" in problems(root)


def test_missing_first_and_last_rows_are_gaps(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, list(range(1, 9))))
    (found,) = verify(root, "t", None)
    assert found.gaps == 2


def test_a_row_too_many_is_a_double_also_across_files(root: str) -> None:
    sound_table(root)
    commit(root, 2, taken(20, 21), write_file(root, [20, 5, 5]))
    (found,) = verify(root, "t", None)
    assert found.doubles == 2
    assert "2 rows repeat an offset" in found.problems[0]


def test_rows_past_the_tables_own_end_are_a_problem(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, list(range(12))))
    assert "rows go up to 12, past the table's end 10" in problems(root)


def test_commits_that_do_not_join_are_a_problem(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, list(range(10))))
    commit(root, 1, taken(12, 20), write_file(root, list(range(12, 20))))
    assert "took in up to 10, then from 12" in problems(root)


def test_leader_epochs_that_fall_are_a_problem_within_and_between_files(root: str) -> None:
    commit(root, 0, taken(0, 3), write_file(root, [0, 1, 2], epochs=[0, 2, 1]))
    assert "leader epochs go back" in problems(root)
    other = f"{root}-2"
    commit(other, 0, taken(0, 2), write_file(other, [0, 1], epochs=[3, 3]))
    commit(other, 1, taken(2, 4), write_file(other, [2, 3], epochs=[2, 2]))
    assert "leader epochs go back" in problems(other)


def test_rows_without_any_commit_left_in_the_log_are_judged_by_themselves(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, [*range(4), *range(6, 10)]))
    table = BronzeTable.open(root)
    table.delta.create_checkpoint()
    log = os.path.join(root, "_delta_log")
    for name in os.listdir(log):
        if name.endswith(".json") and int(name[:20]) < 1:
            os.unlink(os.path.join(log, name))
    (found,) = verify(root, "t", None)
    assert found.gaps == 2


def test_rows_of_commits_that_left_the_log_are_judged_too(root: str) -> None:
    sound_table(root)
    commit(root, 2, taken(20, 30), write_file(root, list(range(20, 30))))
    other = f"{root}-2"
    commit(other, 0, taken(0, 10), write_file(other, [*range(4), *range(6, 10)]))
    commit(other, 1, taken(10, 20), write_file(other, list(range(10, 20))))
    for path, gaps in ((root, 0), (other, 2)):
        table = BronzeTable.open(path)
        table.delta.create_checkpoint()
        log = os.path.join(path, "_delta_log")
        for name in os.listdir(log):
            if name.endswith(".json") and int(name[:20]) < table.version:
                os.unlink(os.path.join(log, name))
        (found,) = verify(path, "t", None)
        assert (found.gaps, found.sound) == (gaps, gaps == 0)


def table_with_empty_offsets(root: str) -> None:
    """Offsets 0 to 30 in three commits, of which two say that not all of theirs hold records."""
    commit(root, 0, taken(0, 10, rows=9, skipped=1), write_file(root, list(range(9))))
    lost = replace(taken(10, 20, rows=5), lost=5)
    commit(root, 1, lost, write_file(root, list(range(15, 20))))
    commit(root, 2, taken(20, 30), write_file(root, list(range(20, 30))))


@pytest.mark.parametrize("before", range(4))
def test_what_commits_counted_as_empty_stays_known_when_they_have_left_the_log(
    root: str, before: int
) -> None:
    table_with_empty_offsets(root)
    AuditCopier(root).copy(BronzeTable.open(root))
    known = verify(root, "t", None, allow_lost=True)
    clean_log(root, before)
    assert verify(root, "t", None, allow_lost=True) == known
    assert (known[0].skipped, known[0].lost, known[0].sound) == (1, 5, True)
    assert problems(root) == "5 offsets were lost to retention"


def test_rows_that_went_missing_after_their_commit_left_the_log_are_found(root: str) -> None:
    commit(root, 0, taken(0, 10), write_file(root, list(range(9))))
    commit(root, 1, taken(10, 20), write_file(root, list(range(10, 20))))
    AuditCopier(root).copy(BronzeTable.open(root))
    clean_log(root, 2)
    assert "[0, 10) was committed with 10 rows, 9 are there" in problems(root)


@pytest.mark.parametrize(("held", "gaps"), [(range(10, 20), 0), ((10, *range(13, 20)), 2)])
def test_what_the_audit_lacks_is_judged_by_the_rows_alone(
    root: str, held: Sequence[int], gaps: int
) -> None:
    commit(root, 0, taken(0, 10, rows=9, skipped=1), write_file(root, list(range(9))))
    AuditCopier(root).copy(BronzeTable.open(root))
    commit(root, 1, taken(10, 20), write_file(root, list(held)))
    commit(root, 2, taken(20, 30), write_file(root, list(range(20, 30))))
    clean_log(root, 3)
    AuditCopier(root).copy(BronzeTable.open(root))
    (found,) = verify(root, "t", None)
    assert (found.gaps, found.skipped, found.sound) == (gaps, 1, gaps == 0)


def test_a_topic_that_the_table_does_not_hold_is_an_error(root: str) -> None:
    sound_table(root)
    with pytest.raises(TableError, match="nothing of topic u"):
        verify(root, "u", None)


def test_a_topic_without_records_is_sound_and_one_with_some_is_missing(
    root: str, broker: FakeBroker
) -> None:
    topic = broker.create("u")
    sound_table(root)
    (found,) = verify(root, "u", broker.address, complete=True)
    assert (found.rows, found.lag, found.sound) == (0, 0, True)
    topic.partitions[0].append([(b"", b"")])
    with pytest.raises(TableError, match="nothing of topic u"):
        verify(root, "u", broker.address)


def test_a_table_whose_topic_is_gone_is_looked_at_all_the_same(
    root: str, broker: FakeBroker
) -> None:
    sound_table(root)
    (found,) = verify(root, "t", broker.address, values=True, complete=True)
    assert (found.rows, found.unchecked, found.differing, found.lag) == (20, 20, 0, -1)
    assert found.problems == ["the cluster has no such topic"]
    with pytest.raises(UnknownTopic, match="topic u does not exist"):
        verify(root, "u", broker.address)


def test_a_partition_that_retention_has_emptied_before_the_table_began_lacks_nothing(
    root: str, broker: FakeBroker
) -> None:
    topic = broker.create("t", 3)
    topic.topic_id = bytes(16)
    taken_of, emptied, later = topic.partitions
    taken_of.append([(b"", b"")] * 20)
    emptied.log_start = later.log_start = 1000
    later.append([(b"", b"")] * 5)
    sound_table(root)
    found = verify(root, "t", broker.address)
    assert [(one.high_watermark, one.lag) for one in found] == [(20, 0), (1000, 0), (1005, 5)]
    later.batches.clear()
    assert all(one.sound for one in verify(root, "t", broker.address, complete=True))
    # Of what the table has begun with, retention takes nothing that would not be missing.
    taken_of.append([(b"", b"")] * 5)
    taken_of.log_start = 25
    (behind, *_) = verify(root, "t", broker.address, complete=True)
    assert (behind.lag, behind.sound) == (5, False)


def test_the_cluster_shows_lag_new_partitions_and_a_table_that_is_ahead(
    root: str, broker: FakeBroker
) -> None:
    topic = broker.create("t", 2)
    topic.topic_id = bytes(16)
    for partition in topic.partitions:
        partition.append([(b"", b"")] * 25)
    sound_table(root)
    first, second = verify(root, "t", broker.address)
    assert (first.lag, first.high_watermark, first.sound) == (5, 25, True)
    assert (second.lag, second.rows, second.sound) == (25, 0, True)
    topic.partitions[0].held_back = 10
    assert "past the high watermark 15" in verify(root, "t", broker.address)[0].problems[0]
    topic.topic_id = b"x" * 16
    assert "another topic id" in verify(root, "t", broker.address)[0].problems[-1]
    AuditCopier(root).copy(BronzeTable.open(root))
    clean_log(root, 3)
    assert "another topic id" in verify(root, "t", broker.address)[0].problems[-1]


def test_a_lag_fails_only_where_the_table_must_be_complete(root: str, broker: FakeBroker) -> None:
    topic = broker.create("t")
    topic.topic_id = bytes(16)
    topic.partitions[0].append([(b"", b"")] * 20)
    sound_table(root)
    assert verify(root, "t", broker.address, complete=True)[0].sound
    topic.partitions[0].append([(b"", b"")] * 5)
    assert verify(root, "t", broker.address)[0].sound
    (found,) = verify(root, "t", broker.address, complete=True)
    assert found.problems == ["5 offsets of the topic are not in the table yet"]


def test_lost_offsets_are_no_gap_and_must_be_allowed(root: str) -> None:
    one = CommittedRange("t", ID, 0, 0, 10, rows=6, skipped=1, leader_epoch=0, lost=3)
    commit(root, 0, one, write_file(root, [3, 4, 5, 6, 7, 8]))
    (found,) = verify(root, "t", None, allow_lost=True)
    assert (found.lost, found.skipped, found.gaps, found.sound) == (3, 1, 0, True)
    assert problems(root) == "3 offsets were lost to retention"
    # More rows missing than were lost are a gap.
    other = f"{root}-2"
    commit(other, 0, one, write_file(other, [3, 4, 5, 6, 7]))
    assert "1 offsets have no row" in problems(other)


def test_a_missing_or_damaged_file_is_named(root: str) -> None:
    sound_table(root)
    first, second = sorted(Path(root).glob("topic=t/*/*.parquet"))
    first.write_bytes(bytes(100))
    with pytest.raises(TableError, match=rf"{first.name}.*: put it back from a copy"):
        verify(root, "t", None)
    second.unlink()
    with pytest.raises(TableError, match=rf"1 of 2 files .* are not there: {second}; put"):
        verify(root, "t", None)


@pytest.mark.parametrize("damaged", ["a page", "the footer"])
def test_a_damaged_file_ends_the_command_with_one_line_that_names_it(
    root: str, damaged: str
) -> None:
    """In each of several runs: threads that still held Python's objects would end some of them by
    a signal.
    """
    for start in range(0, 8000, 1000):
        take(root, start, start + 1000)
    file = sorted(Path(root).glob("topic=t/*/*.parquet"))[3]
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(396) + whole[400:] if damaged == "a page" else whole[:-400])
    command = [sys.executable, "-m", "strandline_spark.commands.main", "verify", root, "t"]
    for _ in range(5):
        done = subprocess.run(
            command, cwd=root, env=clean_environ(), capture_output=True, text=True, timeout=60
        )
        told, line = done.stderr.splitlines()
        assert (done.returncode, done.stdout, "no cluster" in told) == (1, "", True)
        assert line.startswith(f"error: the file {file} does not read (")
        assert line.endswith("): put it back from a copy, or ingest into a new table")


def test_verify_finds_the_cluster_as_the_other_commands_do(
    root: str,
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRANDLINE_BOOTSTRAP", raising=False)
    monkeypatch.delenv("STRANDLINE_DIR", raising=False)
    topic = broker.create("t")
    topic.topic_id = bytes(16)
    topic.partitions[0].append([(b"", b"")] * 25)
    sound_table(root)

    def status(*more: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["verify", root, "t", *more])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    assert status() == 0
    assert "no cluster is named" in capsys.readouterr().err
    assert status("--complete") == 1
    assert "--complete compares with a cluster" in capsys.readouterr().err
    assert status("--bootstrap", broker.address, "--complete") == 1
    assert "5 offsets of the topic are not in the table yet" in capsys.readouterr().out
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", broker.address)
    assert status() == 0
    assert status("--complete") == 1
    monkeypatch.delenv("STRANDLINE_BOOTSTRAP")
    Path(".strandline").mkdir()
    Path(".strandline", "cluster.json").write_text(json.dumps({"bootstrap": broker.address}))
    assert status("--complete") == 1
    assert status("--dir", str(tmp_path / "none")) == 1
    assert "holds no cluster" in capsys.readouterr().err


def test_the_command_prints_a_verdict_and_its_status_says_it_too(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sound_table(root)
    with pytest.raises(SystemExit) as ended:
        main(["verify", root, "t"])
    assert ended.value.code == 0
    assert "sound: every offset once" in capsys.readouterr().out
    commit(root, 2, taken(20, 30), write_file(root, [20, 29]))
    with pytest.raises(SystemExit) as ended:
        main(["verify", root, "t", "--format", "json"])
    assert ended.value.code == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["sound"], document["gaps"], document["doubles"]) == (False, 8, 0)
    with pytest.raises(SystemExit) as ended:
        main(["verify", root, "t", "--memory", "2g", "--worker-python", "python3"])
    assert ended.value.code == 1
    refusal = "error: --worker-python, --memory: a table is read without Spark"
    assert refusal in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["verify", f"{root}-none", "t"])
    assert ended.value.code == 1
    assert "error: " in capsys.readouterr().err


@given(st.lists(st.integers(0, 30), max_size=40))
def test_runs_hold_every_row_once_and_overlap_only_where_an_offset_repeats(
    offsets: list[int],
) -> None:
    runs: list[Run] = fold(np.array(offsets, np.int64), np.zeros(len(offsets), np.int32))
    unfolded = [offset for run in runs for offset in range(run.start, run.end)]
    assert sorted(unfolded) == sorted(offsets)


@given(st.sets(st.integers(0, 30)), st.integers(0, 31), st.integers(0, 31))
def test_offsets_of_a_range_are_counted_as_a_set_counts_them(
    offsets: set[int], a: int, b: int
) -> None:
    start, end = sorted((a, b))
    covered = removals.joined((n, n + 1) for n in offsets)
    assert removals.held_in(covered, start, end) == len(offsets & set(range(start, end)))
