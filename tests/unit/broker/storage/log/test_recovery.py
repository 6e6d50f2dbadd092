"""What is found after a crash: a prefix of what was written, or a refusal, never anything else
(I-7).
"""

import os
import struct
from pathlib import Path

import pytest

from strandline_broker.offline.findings import PartitionReport
from strandline_broker.offline.roots import verify
from strandline_broker.storage.files.checkpoints import HIGH_WATERMARKS
from strandline_proto.batch import read_header
from strandline_proto.errors import KafkaStorageError
from support.disk import Hurried
from support.storage import LARGE, Store, damaged, values_around_damage, written_by_another

LAST = b"last"


def small_log(path: Path, *, flushed: int = 0, high_watermark: int | None = None) -> Store:
    """Six batches of two records, in two epochs; the first `flushed` of them below the recovery
    point.
    """
    store = Store(path, LARGE, fs=Hurried())
    for i in range(6):
        if i == flushed:
            store.flush()
            store.checkpoint(high_watermark)
        store.append(b"%d" % i, b"v" * i, epoch=1 if i < 3 else 4)
    return store


def written(count: int) -> list[bytes]:
    return [value for i in range(count) for value in (b"%d" % i, b"v" * i)]


def log_file(store: Store, base: int = 0) -> Path:
    return store.log_dir / f"{base:020d}.log"


class Rewound:
    """A killed broker whose data directory is put back as it was for each try."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._files = {p: p.read_bytes() for p in self._present()}
        store.kill()

    def _present(self) -> list[Path]:
        return [p for p in self.store.path.rglob("*") if p.is_file()]

    def start_with(self, content: bytes) -> None:
        self.store.kill()
        for path in self._present():
            path.unlink()
        for path, data in self._files.items():
            path.write_bytes(data)
        log_file(self.store).write_bytes(content)
        self.store.reports.clear()
        self.store.start()


def boundaries(path: Path) -> list[int]:
    data = path.read_bytes()
    found, at = [0], 0
    while at < len(data):
        at += read_header(data, at).size
        found.append(at)
    return found


def assert_sound(store: Store) -> None:
    """Loading again changes nothing, epochs match the batches, and the log goes on."""
    values, entries = store.values(), store.log.leader_epochs.entries
    for epoch, start in entries:
        if start < store.log.log_end_offset:
            header = next(store.log.batch_headers(start))
            assert (header.base_offset, header.leader_epoch) == (start, epoch)
    store.reports.clear()
    store.restart()
    assert store.reports == []
    assert (store.values(), store.log.leader_epochs.entries) == (values, entries)
    store.append(LAST, epoch=9)
    assert store.restart(Store.stop)
    assert store.values() == [*values, LAST]


def test_a_log_cut_anywhere_is_found_as_its_whole_batches(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    data, ends = log_file(store).read_bytes(), boundaries(log_file(store))
    rewound = Rewound(store)
    for length in range(len(data) + 1):
        rewound.start_with(data[:length])
        whole = sum(end <= length for end in ends) - 1
        assert store.values() == written(whole)
        assert log_file(store).stat().st_size == ends[whole]
        assert (store.reports == []) == (length in ends)
        if length % 29 == 0:
            assert_sound(store)


def test_a_byte_flipped_anywhere_above_the_recovery_point_ends_the_log_there(
    tmp_path: Path,
) -> None:
    store = small_log(tmp_path / "data")
    data, ends = log_file(store).read_bytes(), boundaries(log_file(store))
    rewound = Rewound(store)
    for at in range(len(data)):
        rewound.start_with(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        whole = sum(end <= at for end in ends) - 1
        assert store.values() == written(whole), at
        assert len(store.reports) == 1
        if at % 31 == 0:
            assert_sound(store)


def test_a_byte_flipped_anywhere_below_the_recovery_point_is_damage(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data", flushed=4)
    data, ends = log_file(store).read_bytes(), boundaries(log_file(store))
    rewound = Rewound(store)
    for at in range(ends[4]):
        broken = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        rewound.start_with(broken)
        hit = sum(end <= at for end in ends) - 1
        assert damaged(store.log) == [(2 * hit, 2 * hit + 2)], at
        assert values_around_damage(store.log) == written(6)[: 2 * hit] + written(6)[2 * hit + 2 :]
        assert log_file(store).read_bytes() == broken
        assert len(store.reports) == 1
        if at % 31 == 0:
            assert damaged(store.restart(Store.stop)) == [(2 * hit, 2 * hit + 2)]
            assert damaged(store.restart(Store.kill)) == [(2 * hit, 2 * hit + 2)]
            store.append(LAST, epoch=9)
            assert values_around_damage(store.restart(Store.stop))[-1] == LAST


@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_a_log_shorter_than_its_recovery_point_is_damage(tmp_path: Path, stop: object) -> None:
    store = small_log(tmp_path / "data", flushed=5)
    assert callable(stop)
    stop(store)
    os.truncate(log_file(store), boundaries(log_file(store))[2])
    promised = 12 if stop is Store.stop else 10
    store.start()
    assert damaged(store.log) == [(4, promised)]
    assert values_around_damage(store.log) == written(2)
    assert store.append(LAST, epoch=9) == promised
    assert values_around_damage(store.restart(Store.stop)) == [*written(2), LAST]
    assert damaged(store.log) == [(4, promised)]
    store.stop()
    for segment in store.log_dir.glob("*.log"):
        segment.unlink()
    store.start()
    assert damaged(store.log) == [(0, promised + 1)]
    assert "no segment file" in store.reports[-1]
    assert store.append(LAST, epoch=9) == promised + 1
    store.log.truncate_to(0)
    assert (damaged(store.log), store.append(LAST, epoch=9)) == ([], 0)


def test_a_damaged_tail_after_a_clean_shutdown_is_damage(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.stop()
    data = log_file(store).read_bytes()
    log_file(store).write_bytes(data[:-1] + b"?")
    store.start()
    assert damaged(store.log) == [(10, 12)]
    assert log_file(store).read_bytes() == data[:-1] + b"?"
    assert store.append(LAST, epoch=9) == 12


def test_a_log_that_grew_after_its_clean_shutdown_is_scanned(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.stop()
    whole = log_file(store).read_bytes()
    log_file(store).write_bytes(whole + b"\0" * 500)
    store.start()
    assert store.values() == written(6)
    assert log_file(store).read_bytes() == whole
    assert len(store.reports) == 1


def test_a_cut_below_the_high_watermark_is_reported_loudly(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.directory.write_high_watermarks({("t", 0): 10})
    store.kill()
    os.truncate(log_file(store), boundaries(log_file(store))[4] + 20)
    store.start()
    assert store.log.log_end_offset == 8
    assert "ATTENTION" in store.reports[0]
    assert "high watermark was 10" in store.reports[0]
    assert store.log.checkpointed_high_watermark == 10, "what it knew is not forgotten"


@pytest.mark.parametrize(("ends_at", "refused"), [(4, True), (5, False)])
def test_under_always_what_the_high_watermark_covered_is_damage(
    tmp_path: Path, ends_at: int, refused: bool
) -> None:
    store = small_log(tmp_path / "data")
    store.directory.update_state(flush_policy="always")
    store.directory.write_high_watermarks({("t", 0): 10})
    store.kill()
    os.truncate(log_file(store), boundaries(log_file(store))[ends_at] + 20)
    assert store.start().log_end_offset == 10
    assert damaged(store.log) == ([(8, 10)] if refused else [])


def many_segments(path: Path) -> Store:
    store = Store(path, fs=Hurried())
    for i in range(60):
        store.append(b"%d" % i, b"x" * 40, epoch=i // 20)
    return store


def test_segments_behind_a_torn_one_go(tmp_path: Path) -> None:
    store = many_segments(tmp_path / "data")
    store.kill()
    bases = sorted(int(p.stem) for p in store.log_dir.glob("*.log"))
    torn = log_file(store, bases[3])
    os.truncate(torn, boundaries(torn)[2] + 5)
    store.start()
    assert store.log.log_end_offset == bases[3] + 4
    assert sorted(int(p.stem) for p in store.log_dir.glob("*.log")) == bases[:4]
    assert_sound(store)


def test_a_segment_that_is_missing_above_the_recovery_point_ends_the_log(tmp_path: Path) -> None:
    store = many_segments(tmp_path / "data")
    store.kill()
    bases = sorted(int(p.stem) for p in store.log_dir.glob("*.log"))
    log_file(store, bases[2]).unlink()
    store.start()
    assert store.log.log_end_offset == bases[2]
    assert_sound(store)


def test_stale_bytes_of_the_right_form_are_not_taken_for_the_next_batch(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    data = log_file(store).read_bytes()
    ends = boundaries(log_file(store))
    again = data + data[ends[2] : ends[3]]
    skipping = data[: ends[2]] + data[ends[3] :]
    for content, count in ((again, 6), (skipping, 2)):
        log_file(store).write_bytes(content)
        store.start()
        assert store.values() == written(count)
        store.kill()
        written_by_another(store.log_dir / "leader-epoch-checkpoint", "0\n2\n1 0\n4 6\n")


def test_an_epoch_the_checkpoint_does_not_know_ends_the_log(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    data = bytearray(log_file(store).read_bytes())
    at = boundaries(log_file(store))[4]
    data[at + 12 : at + 16] = struct.pack(">i", 5)
    log_file(store).write_bytes(data)
    assert store.start().log_end_offset == 8
    assert "leader epoch 5" in store.reports[0]


@pytest.mark.parametrize("content", [None, b"", b"rubbish", b"0\n3\n1 0\n", b"0\n2\n4 0\n1 5\n"])
@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_lost_epochs_are_read_from_the_batches(
    tmp_path: Path, content: bytes | None, stop: object
) -> None:
    store = small_log(tmp_path / "data")
    assert callable(stop)
    stop(store)
    path = store.log_dir / "leader-epoch-checkpoint"
    path.unlink() if content is None else path.write_bytes(content)
    assert store.start().leader_epochs.entries == ((1, 0), (4, 6))
    assert store.reports
    assert path.read_text() == "0\n2\n1 0\n4 6\n"
    assert store.values() == written(6)


@pytest.mark.parametrize(
    ("flipped", "epoch", "found"),
    [
        (0, 0x8001, ((1, 0), (4, 6))),
        (1, 0x8001, ((1, 0), (4, 6))),
        (2, 5, ((1, 0), (4, 6))),
        (3, 0x8004, ((1, 0), (4, 8))),
        (4, 0, ((1, 0), (4, 6))),
        (5, 1, ((1, 0), (4, 6))),
    ],
)
def test_lost_epochs_are_read_from_the_most_batches_that_rise_together(
    tmp_path: Path, flipped: int, epoch: int, found: tuple[tuple[int, int], ...]
) -> None:
    store = small_log(tmp_path / "data")
    store.stop()
    data = bytearray(log_file(store).read_bytes())
    at = boundaries(log_file(store))[flipped]
    data[at + 12 : at + 16] = struct.pack(">i", epoch)
    log_file(store).write_bytes(data)
    (store.log_dir / "leader-epoch-checkpoint").unlink()
    assert store.start().leader_epochs.entries == found
    store.append(LAST, epoch=7)
    assert store.restart(Store.stop).leader_epochs.entries == (*found, (7, 12))
    for i in (i for i in range(6) if i != flipped):
        assert store.log.read(2 * i, max_bytes=1, limit=12).next_offset == 2 * i + 2
    with pytest.raises(KafkaStorageError, match=f"leader epoch {epoch},"):
        store.log.read(2 * flipped, max_bytes=1, limit=12)


@pytest.mark.parametrize("said", ["2\n2 0\n4 6", "2\n1 0\n4 2", "2\n1 0\n4 9", "1\n4 0"])
def test_a_checkpoint_of_epochs_that_durable_batches_contradict_is_not_believed(
    tmp_path: Path, said: str
) -> None:
    store = small_log(tmp_path, flushed=5)
    rewound = Rewound(store)
    content = log_file(store).read_bytes()
    epochs = store.log_dir / "leader-epoch-checkpoint"
    rewound._files[epochs] = f"0\n{said}\n".encode()
    del rewound._files[store.log_dir / "leader-epoch-checkpoint.seal"]
    rewound.start_with(content)
    assert store.log.leader_epochs.entries == ((1, 0), (4, 6))
    assert store.values() == written(6)
    assert any("contradict" in report for report in store.reports)


def test_epochs_beyond_the_end_go_with_the_records_that_were_lost(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    os.truncate(log_file(store), boundaries(log_file(store))[2])
    assert store.start().leader_epochs.entries == ((1, 0),)
    store.log.assign_epoch(6)
    assert store.restart().leader_epochs.entries == ((1, 0), (6, 4))


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"123", b"\xff" * 24, b"\0" * 240])
@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_lost_and_unsound_indexes_are_rebuilt(
    tmp_path: Path, suffix: str, content: bytes | None, stop: object
) -> None:
    store = many_segments(tmp_path / "data")
    store.flush()
    store.checkpoint()
    values = store.values()
    assert callable(stop)
    stop(store)
    good = {p.name: p.read_bytes() for p in store.log_dir.glob(f"*.{suffix}")}
    if stop is Store.kill:
        del good[max(good)]  # those of the active segment are in memory only
    for path in store.log_dir.glob(f"*.{suffix}"):
        path.unlink() if content is None else path.write_bytes(content)
    store.start()
    assert store.values() == values
    assert [h.base_offset for h in store.log.batch_headers(0)] == list(range(0, 120, 2))
    assert store.log.max_timestamp() == (1000, 0, 0)
    store.stop()
    if not (suffix == "index" and content in (b"", b"\0" * 240)):  # an empty one is only slow
        assert {name: (store.log_dir / name).read_bytes() for name in good} == good


def test_zeros_behind_the_entries_of_an_index_are_not_entries(tmp_path: Path) -> None:
    store = many_segments(tmp_path / "data")
    values = store.values()
    store.stop()
    for path in [*store.log_dir.glob("*.index"), *store.log_dir.glob("*.timeindex")]:
        path.write_bytes(path.read_bytes() + b"\0" * 24 * 100)
    store.start()
    assert store.values() == values
    assert store.reports == []


def test_files_of_other_programs_are_left_alone_and_reported(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    for name in ("core", "notes.deleted", "00.log", f"{0:020d}.snapshot"):
        (store.log_dir / name).write_bytes(b"?")
    (store.log_dir / "x.7.tmp").write_bytes(b"?")
    store.start()
    assert sorted(r.split("/")[-1].split(" ")[0] for r in store.reports) == [
        "00.log",
        "core",
        "notes.deleted",
    ]
    assert (store.log_dir / "core").exists()
    assert not (store.log_dir / "x.7.tmp").exists()


def test_checkpoints_of_before_a_truncation_are_not_believed_after_it(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data", flushed=5, high_watermark=10)
    store.directory.update_state(flush_policy="always")
    store.log.truncate_to(4)
    store.append(b"new", epoch=6)
    store.kill()
    os.truncate(log_file(store), log_file(store).stat().st_size - 1)
    store.start()
    assert store.values() == written(2)
    assert len(store.reports) == 1
    assert store.log.checkpointed_high_watermark == 4


def test_a_checkpoint_written_after_a_truncation_is_believed_again(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data", flushed=5, high_watermark=10)
    store.log.truncate_to(4)
    assert len(list(store.log_dir.glob("checkpoint-limit-*"))) == 1
    for i in range(4):
        store.append(b"%d" % i, epoch=6)
    store.flush()
    store.checkpoint(8)
    assert list(store.log_dir.glob("checkpoint-limit-*")) == []
    store.kill()
    os.truncate(log_file(store), log_file(store).stat().st_size - 1)
    assert damaged(store.start()) == [(7, 8)]


def test_a_limit_stays_until_each_shared_checkpoint_was_written(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data", flushed=5)
    store.log.truncate_to(4)
    for write in (
        store.directory.write_recovery_points,
        store.directory.write_log_starts,
        store.directory.write_high_watermarks,
        store.directory.write_cleaned_offsets,
    ):
        assert len(list(store.log_dir.glob("checkpoint-limit-*"))) == 1
        write({("t", 0): 0})
    assert list(store.log_dir.glob("checkpoint-limit-*")) == []


def test_a_log_start_written_after_a_truncation_is_believed_though_the_limit_stays(
    tmp_path: Path,
) -> None:
    """It was told to the leader as durable (I-75)."""
    store = small_log(tmp_path / "data", flushed=5)
    store.log.truncate_to(4)
    for i in range(4):
        store.append(b"%d" % i, epoch=6)
    store.log.raise_log_start(6)
    store.directory.write_log_starts({("t", 0): 6})
    assert len(list(store.log_dir.glob("checkpoint-limit-*"))) == 1
    (found,) = (r for r in verify(store.fs, str(store.path)) if isinstance(r, PartitionReport))
    assert found.expected.log_start == 6
    store.kill()
    assert store.start().log_start_offset == 6
    for write in (
        store.directory.write_recovery_points,
        store.directory.write_high_watermarks,
        store.directory.write_cleaned_offsets,
    ):
        write({("t", 0): 0})
    assert list(store.log_dir.glob("checkpoint-limit-*")) == []


def test_values_computed_before_a_truncation_are_clamped_when_written_after_it(
    tmp_path: Path,
) -> None:
    store = small_log(tmp_path / "data")
    store.flush()
    stale = store.log.durable_offset
    store.log.truncate_to(4)
    store.directory.write_recovery_points({("t", 0): stale})
    store.directory.write_high_watermarks({("t", 0): stale})
    store.directory.write_log_starts({("t", 0): 0})
    assert store.restart().log_end_offset == 4
    assert "t 0 4" in (tmp_path / "data/recovery-point-offset-checkpoint").read_text()
    assert "t 0 4" in (tmp_path / "data/replication-offset-checkpoint").read_text()


def test_a_log_start_beyond_the_end_begins_the_log_anew_there(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    written_by_another(tmp_path / "data/log-start-offset-checkpoint", "0\n1\nt 0 70\n")
    log = store.start()
    assert (log.log_start_offset, log.log_end_offset) == (70, 70)
    assert "starts again" in store.reports[0]


def cut_below_its_start(path: Path) -> Store:
    """Killed, with log start 8 and high watermark 10 in the checkpoints; the batch at 4 and all
    behind it are lost.
    """
    store = small_log(path)
    store.log.raise_log_start(8)
    store.checkpoint(10)
    store.kill()
    os.truncate(log_file(store), boundaries(log_file(store))[2] + 20)
    return store


def test_what_was_known_beyond_a_log_that_begins_anew_is_not_forgotten(tmp_path: Path) -> None:
    """Its records are lost, and that is told if this replica leads (I-53)."""
    log = cut_below_its_start(tmp_path / "data").start()
    assert (log.log_start_offset, log.log_end_offset) == (8, 8)
    assert log.checkpointed_high_watermark == 10
    assert log.limits.lowest(HIGH_WATERMARKS) == 0


def test_a_log_whose_end_was_lost_below_its_start_stands_as_the_deletion_left_it(
    tmp_path: Path,
) -> None:
    """Else it would seem to hold less than one that ends before it (I-5, I-53)."""
    store = cut_below_its_start(tmp_path / "data")
    epochs = store.start().leader_epochs
    assert epochs.entries == ((4, 8),), "the epoch begins at 6, where no batch is left"
    assert store.restart().leader_epochs.entries == ((4, 8),)


def test_without_its_checkpoint_nobody_knows_the_epoch_in_which_a_lost_end_stood(
    tmp_path: Path,
) -> None:
    store = cut_below_its_start(tmp_path / "data")
    (store.log_dir / "leader-epoch-checkpoint").unlink()
    log = store.start()
    assert (log.log_start_offset, log.log_end_offset) == (8, 8)
    assert log.leader_epochs.entries == (), "that of the batches below may be an older one"


def test_records_below_the_log_start_are_not_served(tmp_path: Path) -> None:
    store = small_log(tmp_path / "data")
    store.kill()
    written_by_another(tmp_path / "data/log-start-offset-checkpoint", "0\n1\nt 0 5\n")
    log = store.start()
    assert log.log_start_offset == 5
    assert store.values() == written(6)[5:]
    assert log.offset_for_timestamp(0) == (1000, 5, 1)
