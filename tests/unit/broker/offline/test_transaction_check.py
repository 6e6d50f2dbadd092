"""The offline verification of transactions: the index of aborted ones, and the open ones that
snapshots name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.offline.control_records import ControlRecord, control_record
from strandline_broker.offline.findings import Finding, PartitionReport, Severity
from strandline_broker.offline.roots import verify
from strandline_broker.storage.log.producer_snapshot import parse, serialize
from strandline_broker.storage.segment.txn_index import serialize as entries
from strandline_proto.batch import Record
from strandline_runtime.real import RealFileSystem
from support.compaction import COMPACTED, clean
from support.producer_log import ProducerLog, end_marker, idempotent_batch, transactional_batch
from support.storage import LARGE, Store

if TYPE_CHECKING:
    from pathlib import Path

A, B = 2, 3
SOUND = [(B, 1, 2, 0), (A, 0, 4, 5)]


@pytest.fixture
def p(tmp_path: Path) -> ProducerLog:
    """A at 0, B at 1, its abort at 2, A again at 3, its abort at 4, then B at 5 stays open."""
    p = ProducerLog(Store(tmp_path / "data", LARGE))
    p.append(transactional_batch(A, b"a"))
    p.append(transactional_batch(B, b"b"))
    p.append(end_marker(B, commit=False))
    p.append(transactional_batch(A, b"a", base_sequence=1))
    p.append(end_marker(A, commit=False))
    p.append(transactional_batch(B, b"b", base_sequence=1))
    p.log.roll()
    p.append(transactional_batch(9, b"c"))
    p.append(end_marker(9, commit=True))
    return p


def findings(p: ProducerLog, **options: bool) -> list[Finding]:
    found = list(verify(RealFileSystem(), str(p.store.path), **options))
    (report,) = (each for each in found if isinstance(each, PartitionReport))
    return [f for f in report.findings if f.severity is not Severity.NOTE]


def index_of(p: ProducerLog) -> Path:
    return p.store.log_dir / f"{0:020d}.txnindex"


def test_a_sound_index_has_no_finding(p: ProducerLog) -> None:
    assert index_of(p).read_bytes() == entries(SOUND)
    p.store.stop()
    assert findings(p) == []


@pytest.mark.parametrize(
    ("written", "what", "at"),
    [
        ([], "lacks the transaction of producer 3 from offset 1, aborted at 2", 0),
        (SOUND[:1], "lacks the transaction of producer 2 from offset 0, aborted at 4", 34),
        ([*SOUND, (A, 5, 6, 7)], "no marker at offset 6 aborts it", 68),
        ([(A, 1, 2, 0), SOUND[1]], "no marker at offset 2 aborts it", 0),
        ([(B, 0, 2, 0), SOUND[1]], "its first batch has offset 1", 0),
        ([(B, 1, 2, 3), SOUND[1]], "last stable offset 3, where 0 follows", 0),
        ([SOUND[1], SOUND[0]], "does not rise", 34),
    ],
)
def test_an_index_that_differs_from_the_batches_is_damage(
    p: ProducerLog, written: list[tuple[int, int, int, int]], what: str, at: int
) -> None:
    """After a clean stop nothing is scanned again, so nothing rebuilds it."""
    p.store.stop()
    index_of(p).write_bytes(entries(written))
    found = findings(p)[0]
    assert (found.severity, found.invariant, found.position) == (Severity.DAMAGE, "I-153", at)
    assert what in found.what
    assert found.path == str(index_of(p))


def test_an_index_that_is_gone_is_damage(p: ProducerLog) -> None:
    p.store.stop()
    index_of(p).unlink()
    assert [f.severity for f in findings(p)] == [Severity.DAMAGE, Severity.DAMAGE]


def test_an_index_that_a_start_rebuilds_is_no_damage(p: ProducerLog) -> None:
    index_of(p).write_bytes(entries(SOUND[:1]))
    p.store.kill()
    (found,) = [f for f in findings(p) if f.invariant == "I-153"]
    assert found.severity is Severity.REPAIR
    p.store.start()
    assert index_of(p).read_bytes() == entries(SOUND)


def test_an_index_that_does_not_read_is_named(p: ProducerLog) -> None:
    p.store.stop()
    index_of(p).write_bytes(b"x" * 33)
    (found,) = findings(p)
    assert "it does not read as an index (33 bytes" in found.what


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (-1, "producer 3 has an open transaction from offset 5"),
        (3, "an open transaction of producer 3 from 3: it begins at 5"),
    ],
)
def test_a_snapshot_with_another_open_transaction_is_damage(
    p: ProducerLog, first: int, what: str
) -> None:
    """I-159."""
    path = p.store.log_dir / f"{6:020d}.snapshot"
    p.store.stop()
    found = [
        each._replace(txn_first_offset=first) if each.producer_id == B else each
        for each in parse(path.read_bytes())
    ]
    path.write_bytes(serialize(found))
    (finding,) = findings(p)
    assert (finding.severity, finding.invariant, finding.what) == (Severity.DAMAGE, "I-159", what)


def test_what_a_cleaning_has_taken_is_no_finding(tmp_path: Path) -> None:
    p = ProducerLog(Store(tmp_path / "data", COMPACTED))
    p.append(transactional_batch(A, b"a"))
    p.append(transactional_batch(B, b"b"))
    p.append(transactional_batch(A, b"a", base_sequence=1))
    p.log.roll()
    p.append(end_marker(A, commit=False))
    p.append(end_marker(B, commit=False))
    clean(p.store, bound=3, live_producers={A: 2})
    p.store.stop()
    assert findings(p) == []


def test_a_control_record_is_read_as_kafka_writes_it() -> None:
    def read(key: str, value: str) -> ControlRecord:
        return control_record(Record(0, 0, bytes.fromhex(key), bytes.fromhex(value)))

    assert read("00000001", "000000000005") == ControlRecord("COMMIT", 5)
    assert read("00000000", "0000ffffffff") == ControlRecord("ABORT", -1)
    assert read("00000002", "") == ControlRecord("LEADER_CHANGE", None)
    assert read("00000063", "") == ControlRecord("unknown (99)", None)
    for key, value in (("0000", ""), ("00000001", "0000")):
        with pytest.raises(ValueError, match="does not parse"):
            read(key, value)


def two_logs(
    tmp_path: Path,
    *,
    first: tuple[int, bool],
    second: tuple[int, bool],
    data_epoch: int = 0,
    is_damaged: bool = False,
) -> list[Finding]:
    """The findings of two partitions, in each of which a transaction ends with (epoch, commit).

    The first one goes on with a transaction of the next epoch. A batch before may be damaged.
    """
    store = Store(tmp_path / "data", LARGE)
    logs = [store.log, store.directory.create_log("t", bytes(range(16)), 1, LARGE)]
    for log, (epoch, commit) in zip(logs, (first, second), strict=True):
        store.log = log
        p = ProducerLog(store)
        p.append(idempotent_batch(B, 0, b"before"))
        p.append(transactional_batch(A, b"a", producer_epoch=data_epoch))
        p.append(end_marker(A, producer_epoch=epoch, commit=commit))
        if log is logs[0]:
            p.append(transactional_batch(A, b"a", producer_epoch=epoch))
            p.append(end_marker(A, producer_epoch=epoch + 1, commit=commit))
    store.log = logs[0]
    store.stop()
    if is_damaged:
        file = store.log_dir / f"{0:020d}.log"
        content = bytearray(file.read_bytes())
        content[content.index(b"before")] ^= 1
        file.write_bytes(content)
    reports = list(verify(RealFileSystem(), str(store.path)))
    partitions = [each for each in reports if isinstance(each, PartitionReport)]
    assert len(partitions) == 2
    return [f for each in partitions for f in each.findings if f.invariant == "I-163"]


def test_a_transaction_that_ends_in_two_ways_is_a_contradiction(tmp_path: Path) -> None:
    """I-163, whichever log has which."""
    for number, commits in enumerate((True, False)):
        first, second = (3, commits), (3, not commits)
        (found,) = two_logs(tmp_path / str(number), first=first, second=second, data_epoch=2)
        assert (found.severity, found.offset) == (Severity.SUSPECT, 2)
        words = ("aborts", "commits") if commits else ("commits", "aborts")
        said = f"producer {A} and epoch 3 {words[0]} the transaction, and one in another log"
        assert said in found.what
        assert f"{words[1]} it (lawful only if" in found.what


@pytest.mark.parametrize(
    ("first", "second", "data_epoch"),
    [((3, True), (3, True), 2), ((3, True), (5, False), 2), ((3, True), (3, False), 3)],
    ids=["the same end", "another epoch", "version 1, whose transactions share an epoch"],
)
def test_other_markers_do_not_contradict_each_other(
    tmp_path: Path, first: tuple[int, bool], second: tuple[int, bool], data_epoch: int
) -> None:
    assert two_logs(tmp_path, first=first, second=second, data_epoch=data_epoch) == []


def test_behind_damage_nothing_is_compared(tmp_path: Path) -> None:
    """The batches that are gone may have had the end of the transaction."""
    first, second = (3, True), (3, False)
    assert two_logs(tmp_path, first=first, second=second, data_epoch=2, is_damaged=True) == []
