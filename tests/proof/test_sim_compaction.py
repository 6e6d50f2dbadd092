"""A topic that is compacted all the time (I-68 to I-71, I-77), and what its oracles object to."""

import os
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.oracles.partition.compacted import CompactedCommitted
from strandline_proof.sim.oracles.partition.compacted_view import CompactedView, Record
from strandline_proof.sim.oracles.partition.compaction import (
    CompactionOracle,
    _Began,
    _check_left,
    _Seen,
)
from strandline_proof.sim.oracles.replica.log_view import LogView
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.plan.plan import CLEANER_MS, Fault, Plan
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.topology.topology import Topology
from strandline_proto.batch import build_batch

CRASH = {"power": False, "restart_s": 0.3}


def compaction(at_s: float, **other: Any) -> Fault:
    drawn = {"keys": 6, "delete_retention_ms": 0, "lag_ms": 0, "off_s": 0.0, **other}
    return Fault(at_s, "compaction", drawn)


def run(*faults: Fault, chaos_s: float = 6.0, seed: int = 3, **topology: Any) -> RunResult:
    topology = {"partitions": 1, "cleaner_ms": CLEANER_MS, **topology}
    result = run_plan(Plan(seed, Topology(**topology), faults, chaos_s=chaos_s))
    assert result.failure is None, f"{result.failure}\n{result.timeline.text()}"
    return result


def test_logs_are_compacted_and_read_meanwhile() -> None:
    altered = compaction(2.5, keys=60, lag_ms=700, off_s=0.5, delete_retention_ms=400)
    found = run(compaction(0.3), altered).sometimes
    for event in ("log compacted", "tombstone removed", "compacted log read to its head"):
        assert found[event] > 5, (event, found)
    assert found["compaction altered"] == 2


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("point", ["cleaned", "swap", "swap-flush"])
def test_a_cleaning_may_end_with_its_broker_anywhere(point: str, power: bool) -> None:
    """Right before each of several operations of it, at two brokers in turn (I-73)."""
    faults = [compaction(0.3, keys=3)]
    for n, at_s in enumerate((1.2, 2.4, 3.6, 4.8)):
        where = {"node": f"broker-{1 + n % 3}", "point": point, "count": 1 + n}
        faults.append(Fault(at_s, "crash-at", {**where, "power": power, "restart_s": 0.3}))
    found = run(*faults).sometimes
    assert found[f"ended before: {point}"] >= 3
    assert found["cleaning cut off by a crash"] >= 2


def test_a_tombstone_may_go_with_the_start_that_finishes_a_cleaning() -> None:
    """A crash comes right after a cleaned segment counts, so the next start makes it visible."""
    crashes = [
        Fault(at_s, "crash-at", {"node": node, "point": "swap-flush", "count": 1, **CRASH})
        for at_s in (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
        for node in ("broker-1", "broker-2", "broker-3")
    ]
    found = run(compaction(0.3, keys=60), *crashes, chaos_s=9.0, seed=1).sometimes
    assert found["swap left by a crash"] >= 3
    assert found["tombstone removed"] > 5


def test_replicas_that_were_compacted_at_different_times_are_one_log() -> None:
    away = [
        Fault(at_s, "isolate", {"node": node, "for_s": 1.2, "hold": False})
        for at_s, node in ((1.5, "broker-2"), (3.0, "broker-3"), (4.5, "broker-1"))
    ]
    found = run(compaction(0.3, keys=60), *away, chaos_s=8.0).sometimes
    assert found["leader changed over logs compacted differently"] > 0


# The oracles by themselves

ONE, TWO, GONE = (
    Record(0, 5, b"a", b"1"),
    Record(1, 6, b"b", b"2"),
    Record(2, 7, b"a", None),
)


def ghost() -> CompactedCommitted:
    found = CompactedCommitted(0, min_insync=2, always=False)
    for record in (ONE, TWO, GONE):
        found.truth[record.offset] = record
        found._by_key.setdefault(record.key, []).append(record.offset)
    found.end = 3
    return found


def test_a_reader_that_misses_the_last_value_of_a_key_is_noticed() -> None:
    found = ghost()
    found.check_state({b"a": 2, b"b": 1}, "a reader")
    with pytest.raises(Violation, match="I-71"):
        found.check_state({b"a": 2}, "a reader")
    with pytest.raises(Violation, match="I-71"):
        found.check_state({b"a": 0, b"b": 1}, "a reader")
    found.removed.add(2)
    found.check_state({b"a": 0, b"b": 1}, "a reader that missed a tombstone whose time was over")


@pytest.mark.parametrize(
    "told",
    [
        ONE._replace(value=b"2"),
        ONE._replace(key=b"b"),
        ONE._replace(timestamp=6),
        Record(3, 8, b"a", b"1"),
    ],
)
def test_what_a_client_is_told_is_what_is_committed(told: Record) -> None:
    ghost().check_told("I-12", ONE)
    with pytest.raises(Violation, match="I-12"):
        ghost().check_told("I-12", told)


def test_a_tombstone_goes_with_all_that_it_has_deleted() -> None:
    def held(*records: Record) -> Any:
        return SimpleNamespace(batches=[SimpleNamespace(records=records)])

    left = held(TWO)
    _check_left(ghost(), held(ONE, TWO, GONE).batches, left, left.batches, "a log")
    left = held(ONE, TWO)
    with pytest.raises(Violation, match=r"I-71.*offset 2"):
        _check_left(ghost(), held(ONE, TWO, GONE).batches, left, left.batches, "a log")
    found = ghost()
    found._by_key[b"a"].append(3)
    _check_left(found, held(ONE, TWO, GONE).batches, left, left.batches, "a key that is written")


PATH = "/data/t-0"


def batch(offset: int, *keys: str, producer: int = -1, sequence: int = -1) -> bytes:
    """One record for each key, in leader epoch 0."""
    built = build_batch(
        ((k.encode(), b"v") for k in keys),
        timestamp_ms=5,
        producer_id=producer,
        producer_epoch=min(producer, 0),
        base_sequence=sequence,
    )
    return offset.to_bytes(8, "big") + built[8:12] + bytes(4) + built[16:]


def disk(**files: bytes) -> SimDisk:
    """`log_7=...` is the segment from offset 7 on, `swap_7` a cleaned one."""
    found = SimDisk(random.Random(0), lambda: 1000.0)
    fs = SimFs(found)
    fs.makedirs(PATH)
    for name, data in files.items():
        kind, _, base = name.partition("_")
        ending = ".log" if kind == "log" else ".log.swap"
        fd = fs.open(f"{PATH}/{int(base):020d}{ending}", os.O_RDWR | os.O_CREAT)
        fs.pwritev(fd, (data,), 0)
        fs.close(fd)
    return found


def test_only_a_compacted_log_may_lack_offsets() -> None:
    there = disk(log_0=batch(0, "a") + batch(4, "b", "c"))
    with pytest.raises(Violation, match="I-1"):
        LogView(there, PATH).read_to(6, "a log")
    view = CompactedView(there, PATH, {})
    assert [entry.base for entry in view.read_to(6, "a compacted log")] == [0, 4]
    assert [[r.key for r in b.records] for b in view.batches] == [[b"a"], [b"b", b"c"]]


def test_offsets_that_nobody_has_committed_may_not_be_missing() -> None:
    found, there = ghost(), disk(log_0=batch(0, "a") + batch(1, *"bcdefg"), log_7=batch(7, "c"))
    view = found.view(there, PATH)
    for entry in view.read_to(8, "a log"):
        found.on_appended(entry, "its leader")
    lacking = found.view(disk(log_0=batch(7, "c")), PATH)
    (entry,) = lacking.read_to(8, "a log")
    with pytest.raises(Violation, match="I-1"):
        found.on_appended(entry, "a follower")


def test_a_leader_appends_at_the_end_of_its_log() -> None:
    found = ghost()
    first, late = found.view(disk(log_0=batch(0, "a"), log_7=batch(7, "c")), PATH).read_to(8, "")
    found.on_appended(first, "its leader")
    with pytest.raises(Violation, match=r"I-1: .* offsets 1 to 7 are missing"):
        found.on_appended(late, "its leader")


def test_the_segment_behind_a_torn_batch_is_not_what_a_recovery_keeps() -> None:
    """Else what is torn would pass for compacted away (I-7)."""
    torn = disk(log_0=batch(0, "a") + batch(1, "b")[:20], log_2=batch(2, "c"))
    view = CompactedView(torn, PATH, {})
    view.read_valid()
    assert view.end == 1


def test_nor_is_one_behind_a_segment_whose_last_batch_is_missing() -> None:
    """A cleaning keeps it, and a segment begins where the log ended (I-7)."""
    torn = disk(log_0=batch(0, "a") + batch(3, "b"), log_5=batch(5, "c"))
    view = CompactedView(torn, PATH, {})
    view.read_valid()
    assert view.end == 4
    begun_later = CompactedView(disk(log_3=batch(3, "b"), log_4=batch(4, "c")), PATH, {})
    begun_later.read_valid()
    assert begun_later.end == 5


def test_a_cleaned_segment_stands_for_those_that_it_covers() -> None:
    there = disk(
        log_0=batch(0, "a"), log_1=batch(1, "a"), log_2=batch(2, "b"), swap_0=batch(1, "a")
    )
    view = CompactedView(there, PATH, {})
    view.read_valid()
    assert [entry.base for entry in view.entries] == [1, 2]
    assert view.has_swap()


def test_what_was_replaced_is_read_again() -> None:
    there = disk(log_0=batch(0, "a"), log_1=batch(1, "a"), log_2=batch(2, "b"))
    view = CompactedView(there, PATH, {})
    view.read_to(3, "a log")
    assert view.refresh() == ([], [])
    cleaned = disk(swap_0=batch(1, "a")).find(f"{PATH}/{0:020d}.log.swap")
    directory, _ = there.parent(f"{PATH}/x")
    directory.entries[f"{0:020d}.log.swap"] = cleaned
    old, new = view.refresh()
    assert ([b.end for b in old], [b.end for b in new]) == ([1, 2], [2])
    assert [entry.base for entry in view.entries] == [1, 2]
    assert view.holds(view.entries[0])
    assert not view.read_to(3, "a log")


def test_the_time_of_a_tombstone_does_not_outlive_its_replica() -> None:
    known: Any = SimpleNamespace()
    oracle, seen = CompactionOracle(known, Counter()), {(0, 0), (1, 0)}
    oracle._timed["broker-1 compacted:0"] = set(seen)
    node: Any = SimpleNamespace(name="broker-1")
    partition: Any = SimpleNamespace(
        key=None, log=SimpleNamespace(state=SimpleNamespace(replacements=0))
    )
    view = CompactedView(disk(log_0=batch(0, "a") + batch(1, "b")), PATH, {})
    known.known = lambda *_: view
    view.read_to(2, "a log")
    oracle._open(node, partition, None)
    assert oracle._timed["broker-1 compacted:0"] == seen
    view = CompactedView(disk(), PATH, {})
    oracle._open(node, partition, None)
    assert not oracle._timed["broker-1 compacted:0"]


# Producers that were forgotten (I-60), and whom a start knows again from an older snapshot (I-79)

NOBODY: Any = SimpleNamespace()
NODE: Any = SimpleNamespace(name="broker-1")
WHERE = "broker-1 compacted:0"


LAST = batch(1, "a", producer=1, sequence=1)
BEFORE = batch(0, "a", producer=1, sequence=0) + LAST + batch(2, "a")
AFTER = batch(2, "a")


def held(log: bytes) -> CompactedView:
    view = CompactedView(disk(log_0=log), PATH, {})
    view.read_to(3, "a log")
    return view


def knows(*sequences: int) -> Any:
    """A partition that knows producer 1 up to these sequences, which are its offsets too."""
    entries = [(1, 0, sequence, sequence, 0, 5, -1, -1) for sequence in sequences]
    return SimpleNamespace(producers=SimpleNamespace(entries=lambda: entries))


def began(*producers: int) -> _Began:
    return _Began(None, 0, 3, 0, frozenset(producers))


def cleaned(oracle: CompactionOracle, old: bytes, new: bytes, at: _Began, partition: Any) -> None:
    view = held(new)
    oracle._note_forgotten(held(old).batches, view.batches, at, WHERE)
    oracle._check_producers(partition, view, WHERE)


def test_a_producer_whose_batch_went_when_it_was_forgotten_may_be_known_again() -> None:
    oracle = CompactionOracle(NOBODY, Counter())
    cleaned(oracle, BEFORE, AFTER, began(), knows())
    cleaned(oracle, AFTER, AFTER, began(1), knows(1))
    with pytest.raises(Violation, match=r"I-79.*sequence 0"):  # not its last one
        cleaned(oracle, AFTER, AFTER, began(1), knows(0))
    oracle._check_producers(knows(1), held(AFTER), WHERE)
    oracle.on_copied("broker-1", "broker-2")
    oracle._check_producers(knows(1), held(AFTER), "broker-2 compacted:0")
    with pytest.raises(Violation, match="I-79"):  # where nothing was cleaned
        oracle._check_producers(knows(1), held(AFTER), "broker-3 compacted:0")


def test_a_cleaning_leaves_the_last_batch_of_whom_it_began_with() -> None:
    oracle = CompactionOracle(NOBODY, Counter())
    cleaned(oracle, BEFORE, LAST + AFTER, began(1), knows(1))
    with pytest.raises(Violation, match="I-79"):
        cleaned(oracle, BEFORE, AFTER, began(1), knows(1))


def test_what_was_copied_anew_may_not_go_because_it_went_before() -> None:
    """A wiped disk gets the batch from a leader that has it still."""
    oracle = CompactionOracle(NOBODY, Counter())
    cleaned(oracle, BEFORE, AFTER, began(), knows())
    with pytest.raises(Violation, match="I-79"):
        cleaned(oracle, BEFORE, AFTER, began(1), knows(1))


@pytest.mark.parametrize("known", [False, True])
def test_a_start_that_finishes_a_cleaning_takes_what_the_cleaning_might(known: bool) -> None:
    oracle = CompactionOracle(NOBODY, Counter())
    log: Any = SimpleNamespace(state=SimpleNamespace(replacements=0))
    seen = _Seen(log, held(BEFORE))
    seen.began = began(1) if known else began()
    oracle._judge_start(NODE, seen, held(AFTER))
    if known:
        with pytest.raises(Violation, match="I-79"):
            oracle._check_producers(knows(1), held(AFTER), WHERE)
    else:
        oracle._check_producers(knows(1), held(AFTER), WHERE)
