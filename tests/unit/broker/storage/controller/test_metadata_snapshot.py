"""Snapshots beside the controller's log: what a start begins from, and what may go (I-8, P-84)."""

import copy
import errno
import random
from pathlib import Path
from typing import Self

import pytest

from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.offline.findings import Severity
from strandline_broker.offline.roots import verify
from strandline_broker.storage.controller import metadata_snapshot
from strandline_broker.storage.controller.metadata_log import DIRECTORY
from strandline_broker.storage.controller.metadata_snapshot import (
    BATCH_BYTES,
    VERSION,
    BadSnapshot,
    LaterSnapshot,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    values_of,
    write_snapshot,
)
from strandline_broker.storage.directory.directory import DirectoryError
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proto.batch import Compression, build_batch, read_header
from strandline_proto.errors import CorruptMessage
from support.controller_store import StoreRun, fold, same, some_decisions
from support.disk import FaultyDisk
from support.examples import every
from support.memory_disk import MemoryDisk

BATCHES = some_decisions()
AT = SnapshotId(7, 3)


def written(values: list[bytes]) -> tuple[MemoryDisk, str]:
    disk = MemoryDisk()
    disk.makedirs("/d")
    size = write_snapshot(disk, "/d", AT, values, store_id="s", now_ms=5)
    assert size == len(disk.files[f"/d/{AT.name}"])
    return disk, f"/d/{AT.name}"


@pytest.mark.parametrize("values", [[], [b"a"], [b"", b"x" * BATCH_BYTES, b"b" * 9, b"c"]])
def test_a_snapshot_comes_back_as_it_was_written(values: list[bytes]) -> None:
    disk, _ = written(values)
    assert list_snapshots(disk, "/d") == [AT]
    assert read_snapshot(disk, "/d", AT, store_id="s") == values
    assert read_snapshot(disk, "/d", AT, store_id=None) == values


def test_a_snapshot_cut_or_changed_anywhere_is_recognised() -> None:
    disk, path = written([b"state", b"topic", b"partition"])
    data = bytes(disk.files[path])
    for at in range(len(data)):
        for bad in (data[:at], data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :]):
            disk.files[path] = bytearray(bad)
            with pytest.raises(BadSnapshot):
                read_snapshot(disk, "/d", AT, store_id="s")
    disk.files[path] = bytearray(data + b"\0")
    with pytest.raises(BadSnapshot, match="are no batch"):
        read_snapshot(disk, "/d", AT, store_id="s")


def test_a_snapshot_of_another_store_or_place_is_not_taken() -> None:
    disk, path = written([b"state"])
    with pytest.raises(BadSnapshot, match="store_id 's' where 'other' is expected"):
        read_snapshot(disk, "/d", AT, store_id="other")
    for other in (SnapshotId(8, 3), SnapshotId(7, 4)):
        disk.files[f"/d/{other.name}"] = disk.files[path]
        with pytest.raises(BadSnapshot, match=r"end_offset|belongs there"):
            read_snapshot(disk, "/d", other, store_id="s")


# The store


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "data").mkdir()
    return FaultyDisk(tmp_path / "data")


def run(disk: FaultyDisk) -> StoreRun:
    return StoreRun(disk, str(disk.root))


def files(disk: FaultyDisk, suffix: str) -> list[Path]:
    return sorted((disk.root / DIRECTORY).glob(f"*.{suffix}"))


def filled(disk: FaultyDisk, *, snapshots: tuple[int, ...]) -> StoreRun:
    """All decisions, with a snapshot before each of those numbers."""
    store = run(disk)
    for number, values in enumerate(BATCHES):
        if number in snapshots:
            store.snapshot()
        store.append(values)
    return store


def test_a_start_from_a_snapshot_and_the_rest_is_the_same_as_from_the_whole_log(
    disk: FaultyDisk,
) -> None:
    for at in range(1, len(BATCHES)):
        filled(disk, snapshots=(at,))
        disk.crash()
        again = run(disk)
        assert again.log.snapshot is not None
        assert again.log.snapshot.end_offset == fold(BATCHES[:at]).next_offset
        assert same(again.state, fold(BATCHES))
        assert again.reports == []
        again.append([b'{"type":"Config","key":"k","value":"v"}'])
        disk.kill()
        for child in sorted(disk.root.rglob("*"), reverse=True):
            child.rmdir() if child.is_dir() else child.unlink()


def test_the_segments_below_the_snapshot_before_the_last_go(disk: FaultyDisk) -> None:
    store = filled(disk, snapshots=(3, 6, 9))
    ends = [fold(BATCHES[:n]).next_offset for n in (6, 9)]
    assert [s.end_offset for s in store.log.snapshots] == ends
    assert store.log.start_offset == ends[0]
    assert [int(path.name.partition("-")[0]) for path in files(disk, "checkpoint")] == ends
    assert [int(path.stem) for path in files(disk, "log")] == ends
    assert 0 < store.log.bytes_since_snapshot == files(disk, "log")[-1].stat().st_size
    store.close()
    again = run(disk)
    assert same(again.state, fold(BATCHES))
    assert again.log.start_offset == ends[0]
    assert again.reports == []


def test_where_the_newest_snapshot_does_not_read_the_one_before_it_is_taken(
    disk: FaultyDisk,
) -> None:
    filled(disk, snapshots=(3, 6, 9))
    disk.kill()
    old, new = files(disk, "checkpoint")
    new.write_bytes(new.read_bytes()[:-1])
    again = run(disk)
    assert same(again.state, fold(BATCHES))
    assert "The controller begins from " + old.name in again.reports[0]
    again.snapshot()
    again.close()
    names = [path.name for path in files(disk, "checkpoint")]
    assert old.name in names
    assert new.name not in names
    old.unlink()
    assert same(run(disk).state, fold(BATCHES))


def test_a_bad_first_snapshot_is_passed_over_while_the_log_is_whole(disk: FaultyDisk) -> None:
    filled(disk, snapshots=(3,))
    disk.kill()
    files(disk, "checkpoint")[0].write_bytes(b"")
    again = run(disk)
    assert same(again.state, fold(BATCHES))
    assert "The log is whole" in again.reports[0]


def test_no_snapshot_that_reads_and_no_whole_log_is_refused(disk: FaultyDisk) -> None:
    filled(disk, snapshots=(3, 6, 9))
    disk.kill()
    for path in files(disk, "checkpoint"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DirectoryError, match=r"begins at offset \d+ and no snapshot covers"):
        run(disk)
    disk.kill()
    for path in files(disk, "checkpoint"):
        path.unlink()
    with pytest.raises(DirectoryError, match="put the file back from a copy"):
        run(disk)


def test_a_log_that_lost_its_end_or_all_its_files_is_refused(disk: FaultyDisk) -> None:
    filled(disk, snapshots=(3, 6, 9))
    disk.kill()
    first, last = files(disk, "log")
    last.rename(disk.root / "last")
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(DirectoryError, match="was taken later"):
        run(disk)
    disk.kill()
    for path in files(disk, "log"):
        path.unlink()
    with pytest.raises(DirectoryError, match="segment files are gone"):
        run(disk)
    assert files(disk, "log") == []


@pytest.mark.parametrize("call", ["open", "pwritev", "fdatasync", "replace", "fsync_dir", "unlink"])
def test_a_snapshot_that_fails_is_given_up_and_the_log_goes_on(disk: FaultyDisk, call: str) -> None:
    """At each operation of its kind in turn, with a full disk or a failed fsync."""
    for spared in range(0, 40, every(3)):
        store = filled(disk, snapshots=(3, 6))
        disk.failing[call], disk.spared[call] = errno.ENOSPC, spared
        failed = False
        try:
            store.snapshot()
        except OSError:
            failed = True
        disk.failing.clear()
        disk.spared.clear()
        store.append([b'{"type":"Config","key":"k","value":"v"}'])
        store.snapshot()
        disk.crash()
        again = run(disk)
        assert again.state.defaults["k"] == "v"
        assert same(again.state, store.state)
        disk.kill()
        for child in sorted(disk.root.rglob("*"), reverse=True):
            child.rmdir() if child.is_dir() else child.unlink()
        if not failed:
            break
    else:
        raise AssertionError(f"{call} never ended")


# A loss of power, or a kill, at every single disk operation


class Machine:
    """A disk, and the process that runs on it."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.disk = SimDisk(self.rng, lambda: 1000.0)
        self.process: SimFs | None = None
        self.asked = self.decided = 0

    def ended(self, seed: int) -> Self:
        """Another that is as this one, but for its process, which ends in this moment."""
        other = copy.deepcopy(self)
        other.rng.seed(seed)
        other.disk.crashes.clear()
        other.end()
        return other

    def start(self) -> StoreRun:
        self.end()
        self.process = SimFs(self.disk)
        return StoreRun(self.process)

    def end(self) -> None:
        if self.process is not None:
            self.process.alive = False

    def story(self) -> ControllerState:
        """Two processes that decide and keep snapshots; what was decided is read from the store, as
        a start does.
        """
        for until in (len(BATCHES) - 5, len(BATCHES)):
            store = self.start()
            while (count := known(store)) < until:
                if count % 3 == 1 and store.log.bytes_since_snapshot > 0:
                    store.snapshot()
                self.asked = count + 1
                store.append(BATCHES[count])
                self.decided = count + 1
            store.close()
        return store.state


def known(store: StoreRun) -> int:
    """How many decisions the state knows."""
    ends = [0]
    for values in BATCHES:
        ends.append(ends[-1] + len(values))
    return ends.index(store.state.next_offset)


def damage(fs: SimFs | FaultyDisk, root: str) -> list[str]:
    """What the offline verifier says of the controller's log and snapshots."""
    if not fs.isdir(root):
        return []
    return [
        finding.what
        for report in verify(fs, root)
        for finding in report.findings
        if finding.severity is Severity.DAMAGE and finding.invariant != "I-36"
    ]


def test_the_offline_verifier_knows_sound_snapshots_from_bad_ones(disk: FaultyDisk) -> None:
    filled(disk, snapshots=(3, 6, 9)).close()
    assert damage(disk, str(disk.root)) == []
    old, new = files(disk, "checkpoint")
    sound = new.read_bytes()
    for at in range(0, len(sound), 7):
        new.write_bytes(sound[:at] + bytes([sound[at] ^ 0x11]) + sound[at + 1 :])
        assert len(damage(disk, str(disk.root))) == 1, at
        new.write_bytes(sound[:at])
        assert len(damage(disk, str(disk.root))) == 1, at
    new.unlink()
    assert damage(disk, str(disk.root)) == []
    old.rename(old.with_name("0" * 20 + "-0000000001.checkpoint"))
    assert "no snapshot covers what was before" in damage(disk, str(disk.root))[-1]


@pytest.mark.parametrize(
    "survival",
    [
        0.5,
        pytest.param(0.0, marks=pytest.mark.proof),
        pytest.param(None, marks=pytest.mark.proof),
    ],
)
def test_no_disk_operation_is_a_bad_moment_to_end(survival: float | None) -> None:
    """`survival` None: the process is killed, and the page cache stays."""
    machine = Machine()

    def end_before(operation: int, name: str) -> None:
        after = machine.ended(operation)
        if survival is not None:
            after.disk.lose_power(survival)
        assert not damage(SimFs(after.disk), "/data"), (operation, name)
        again = after.start()
        assert after.decided <= known(again) <= after.asked, (operation, name)
        assert same(again.state, fold(BATCHES[: known(again)])), (operation, name)
        assert not any("not read" in report for report in again.reports), again.reports
        if operation % 4 == 0:
            assert same(after.story(), fold(BATCHES)), (operation, name)

    machine.disk.crashes.append(end_before)
    machine.story()
    assert machine.disk.operations > 200


def test_a_compressed_batch_is_none_of_the_controllers() -> None:
    data = build_batch([(None, b"v" * 100)], timestamp_ms=1, compression=Compression.ZSTD)
    with pytest.raises(CorruptMessage, match="offset 0 is compressed"):
        values_of(data, 0, read_header(data))


def test_no_older_snapshot_takes_the_place_of_one_that_a_later_build_wrote(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(disk, snapshots=(2, 4)).close()
    monkeypatch.setattr(metadata_snapshot, "VERSION", VERSION + 1)
    later = run(disk)
    later.snapshot()
    later.close()
    monkeypatch.undo()
    before = {path: path.read_bytes() for path in files(disk, "*")}
    with pytest.raises(LaterSnapshot) as refused:
        run(disk)
    newest = files(disk, "checkpoint")[-1]
    assert str(refused.value) == (
        f"{newest} is a snapshot of version {VERSION + 1}, and this build knows versions up to"
        f" {VERSION}"
    )
    assert {path: path.read_bytes() for path in files(disk, "*")} == before
