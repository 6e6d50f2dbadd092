"""A log as its host uses it: append, read, cut, flush."""

from pathlib import Path

import pytest

from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import Compression, iter_headers, read_header
from strandline_proto.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from support.storage import LARGE, SMALL, Store, batch_of, damaged, values_around_damage, values_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def fill(store: Store, count: int, *, epoch: int = 0, size: int = 50) -> list[bytes]:
    values = [b"%d:" % i + b"x" * size for i in range(count)]
    for i, value in enumerate(values):
        store.append(value, epoch=epoch, timestamp_ms=1000 + i)
    return values


def test_a_leader_assigns_offset_and_epoch_and_nothing_else(store: Store) -> None:
    batch = batch_of(b"a", b"b")
    first = store.log.append_as_leader(batch, read_header(batch), leader_epoch=3)
    second = store.log.append_as_leader(batch, read_header(batch), leader_epoch=3)
    assert (first.base_offset, first.next_offset, first.position) == (0, 2, 0)
    assert (second.base_offset, second.next_offset, second.position) == (2, 4, len(batch))
    records = store.log.read(2, max_bytes=1 << 20, limit=4).records
    header = read_header(records)
    assert (header.base_offset, header.leader_epoch) == (2, 3)
    assert records[16:] == batch[16:]


def test_an_append_that_does_not_fit_begins_a_new_segment(store: Store) -> None:
    values = fill(store, 40)
    names = sorted(p.name for p in store.log_dir.glob("*.log"))
    assert len(names) > 3
    assert all(p.stat().st_size <= SMALL.segment_bytes for p in store.log_dir.glob("*.log"))
    assert store.values() == values
    assert store.log.size_bytes == sum(p.stat().st_size for p in store.log_dir.glob("*.log"))


def test_a_full_index_begins_a_new_segment(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 30, index_interval_bytes=1, segment_index_bytes=48)
    store = Store(tmp_path / "data", config)
    values = fill(store, 20)
    assert len(list(store.log_dir.glob("*.log"))) > 4
    store.stop()
    assert all(p.stat().st_size <= 48 for p in store.log_dir.glob("*index"))
    store.start()
    assert store.values() == values


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(store: Store) -> None:
    store.append(b"small")
    store.append(b"x" * 5000)
    store.append(b"after")
    assert store.values() == [b"small", b"x" * 5000, b"after"]


@pytest.mark.parametrize("config", [SMALL, LARGE])
@pytest.mark.parametrize("max_bytes", [0, 1, 120, 300, 10_000])
def test_a_read_returns_whole_batches_from_the_one_with_the_start(
    tmp_path: Path, config: LogConfig, max_bytes: int
) -> None:
    store = Store(tmp_path / "data", config)
    for i in range(60):
        store.append(b"%d" % i, b"y" * (i % 7) * 30)
    for _ in range(2):  # as written, and with a log that was opened anew
        for start in range(120):
            run = store.log.read(start, max_bytes=max_bytes, limit=120)
            headers = [h for _, h in iter_headers(run.records)]
            assert run.base_offset == headers[0].base_offset == start - start % 2
            assert run.next_offset == headers[-1].next_offset
            assert sum(h.size for h in headers) == len(run.records)
            assert len(headers) == 1 or len(run.records) <= max_bytes
        store.restart(Store.stop)


@pytest.mark.parametrize("config", [SMALL, LARGE])
def test_a_read_ends_below_the_limit(tmp_path: Path, config: LogConfig) -> None:
    store = Store(tmp_path / "data", config)
    for _ in range(40):
        store.append(b"a", b"b" * 40)
    for restarted in (False, True):
        if restarted:
            store.restart(Store.stop)
        for limit in range(81):
            position = 0
            while True:
                run = store.log.read(position, max_bytes=500, limit=limit)
                if not run.records:
                    break
                headers = [h for _, h in iter_headers(run.records)]
                assert headers[-1].last_offset < limit
                position = run.next_offset
            assert position == limit - limit % 2


def test_a_read_at_the_limit_or_above_is_empty_and_past_the_end_refused(store: Store) -> None:
    fill(store, 10)
    assert store.log.read(5, max_bytes=100, limit=5).records == b""
    assert store.log.read(8, max_bytes=100, limit=5).records == b""
    assert store.log.read(10, max_bytes=100, limit=10).next_offset == 10
    for start in (-1, 11):
        with pytest.raises(OffsetOutOfRange, match="t:0"):
            store.log.read(start, max_bytes=100, limit=10)


def test_only_the_tail_is_hot(store: Store) -> None:
    fill(store, 40)
    assert store.log.is_hot(39)
    assert store.log.is_hot(40)
    assert not store.log.is_hot(0)


def test_a_long_tail_stays_readable_while_old_boundaries_are_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", LARGE)
    for i in range(3000):
        store.append(b"%d" % i, b"x")
        assert store.log.is_hot(2 * max(i - 1023, 0))
    assert [int(v) for v in store.values()[::2]] == list(range(3000))
    assert not store.log.is_hot(10)
    for start in range(0, 6000, 7):
        assert store.log.read(start, max_bytes=1, limit=6000).base_offset == start - start % 2


def test_a_lying_index_costs_time_and_no_answer(store: Store) -> None:
    values = fill(store, 40)
    store.stop()
    for path in store.log_dir.glob("*.index"):
        words = bytearray(path.read_bytes())
        for at in range(7, len(words) - 8, 8):
            words[at] ^= 0x01  # positions that are no batch's
        path.write_bytes(words)
    store.start()
    assert store.values() == values
    assert [store.log.read(i, max_bytes=1, limit=40).base_offset for i in range(40)] == list(
        range(40)
    )


def test_an_index_that_names_later_batches_costs_time_and_no_answer(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=100, segment_index_bytes=1 << 20)
    store = Store(tmp_path / "data", config)
    fill(store, 100)
    store.stop()
    for path in store.log_dir.glob("*.index"):
        words = path.read_bytes()
        positions = [words[at : at + 4] for at in range(4, len(words), 8)]
        later = zip(range(0, len(words), 8), positions[1:], strict=False)
        path.write_bytes(b"".join(words[at : at + 4] + position for at, position in later))
    store.start()
    found = [store.log.read(i, max_bytes=1, limit=100).base_offset for i in range(100)]
    assert found == list(range(100))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_ends_exactly_at_the_most_bytes_is_in(tmp_path: Path, restarted: bool) -> None:
    store = Store(tmp_path / "data", LARGE)
    for _ in range(100):
        store.append(b"x" * 100)
    size = store.log.size_bytes // 100
    if restarted:
        store.restart(Store.stop)
        for _ in range(3000):
            store.append(b"y")  # so many that the first hundred are no recent batches
    for count in (1, 2, 3, 30):
        for start in (0, 7, 60):
            for spare, expected in ((-1, max(count - 1, 1)), (0, count), (1, count)):
                run = store.log.read(start, max_bytes=count * size + spare, limit=100)
                assert (run.next_offset, len(run.records)) == (start + expected, expected * size)


def test_headers_are_replayed_from_any_offset(store: Store) -> None:
    fill(store, 30)
    for start in (0, 7, 29):
        found = [h.base_offset for h in store.log.batch_headers(start)]
        assert found == list(range(start, 30))
    assert list(store.log.batch_headers(30)) == []


def test_records_are_found_by_time(store: Store) -> None:
    log = store.log
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    for i in range(40):
        batch = batch_of(b"x" * 60, timestamp_ms=1000 + 10 * i, compression=Compression.GZIP)
        log.append_as_leader(batch, read_header(batch), leader_epoch=2)
    for log_now in (log, store.restart(Store.stop), store.restart()):
        assert log_now.offset_for_timestamp(0) == (1000, 0, 2)
        for i in range(40):
            assert log_now.offset_for_timestamp(1000 + 10 * i) == (1000 + 10 * i, i, 2)
            assert log_now.offset_for_timestamp(991 + 10 * i) == (1000 + 10 * i, i, 2)
        assert log_now.offset_for_timestamp(1391) is None
        assert log_now.max_timestamp() == (1390, 39, 2)


def test_the_first_of_several_records_with_the_largest_time_is_found(store: Store) -> None:
    for time in (10, 90, 20, 90, 30):
        store.append(b"x" * 300, timestamp_ms=time)
    assert store.log.max_timestamp() == (90, 1, 0)
    assert store.log.offset_for_timestamp(15) == (90, 1, 0)
    store.log.truncate_to(1)
    assert store.log.max_timestamp() == (10, 0, 0)


def run_of(store: Store, tmp_path: Path, epochs: list[int], *, first: int = 0) -> bytes:
    """What a leader with these epochs would answer."""
    leader = Store(tmp_path / "leader", LARGE)
    leader.log.truncate_fully_and_start_at(first)
    for i, epoch in enumerate(epochs):
        leader.append(b"%d" % i, b"z", epoch=epoch)
    return leader.log.read(first, max_bytes=1 << 20, limit=leader.log.log_end_offset).records


def test_a_follower_appends_a_run_and_learns_its_epochs(store: Store, tmp_path: Path) -> None:
    records = run_of(store, tmp_path, [1, 1, 4, 6])
    headers = store.log.append_as_follower(records, leader_epoch=6)
    assert [h.base_offset for h in headers] == [0, 2, 4, 6]
    assert store.log.leader_epochs.entries == ((1, 0), (4, 4), (6, 6))
    assert store.log.read(0, max_bytes=1 << 20, limit=8).records == records
    assert store.log.append_as_follower(b"", leader_epoch=6) == []
    assert store.restart().leader_epochs.entries == ((1, 0), (4, 4), (6, 6))


def test_a_follower_refuses_what_does_not_follow_and_keeps_nothing_of_it(
    store: Store, tmp_path: Path
) -> None:
    records = run_of(store, tmp_path, [1, 2, 3])
    size = len(records) // 3
    bad = {
        "does not follow": records[size:],
        "cut off": records[:-1],
        "no batch": records + b"\0",
        "CRC": records[:-1] + bytes([records[-1] ^ 1]),
        "impossible": records[: size + 8] + b"\0\0\0\0" + records[size + 12 :],
        "format 0": records[:16] + b"\0" + records[17:],
        "not within": records[: size + 12] + b"\0\0\0\0" + records[size + 16 :],
    }
    for why, run in bad.items():
        with pytest.raises(CorruptMessage, match=why):
            store.log.append_as_follower(run, leader_epoch=3)
    with pytest.raises(CorruptMessage, match="leader epoch 3 is not within"):
        store.log.append_as_follower(records, leader_epoch=2)
    assert store.log.log_end_offset == 0
    assert store.log.leader_epochs.entries == ()
    assert store.log.append_as_follower(records, leader_epoch=3)


def test_a_log_with_records_takes_no_batch_that_overlaps_them(store: Store, tmp_path: Path) -> None:
    records = run_of(store, tmp_path, [1])
    store.append(b"q", epoch=1)
    with pytest.raises(CorruptMessage, match="base offset 0 does not follow"):
        store.log.append_as_follower(records, leader_epoch=1)


def test_an_empty_log_may_begin_inside_a_batch(store: Store, tmp_path: Path) -> None:
    records = run_of(store, tmp_path, [5, 5], first=100)
    store.log.truncate_fully_and_start_at(101)
    store.log.append_as_follower(records, leader_epoch=5)
    for log in (store.log, store.restart(), store.restart(Store.stop)):
        assert (log.log_start_offset, log.log_end_offset) == (101, 104)
        assert log.leader_epochs.entries == ((5, 101),)
        assert values_of(log) == [b"z", b"1", b"z"]
    store.log.truncate_fully_and_start_at(104)
    with pytest.raises(CorruptMessage, match="does not follow"):
        store.log.append_as_follower(records, leader_epoch=5)


@pytest.mark.parametrize("target", [0, 1, 2, 3, 17, 37, 40])
def test_truncation_cuts_log_indexes_and_epochs_together(store: Store, target: int) -> None:
    values = fill(store, 20, epoch=1, size=50)
    values += fill(store, 20, epoch=2, size=50)
    generation = store.log.state.truncations
    store.flush()
    store.log.truncate_to(target)
    for log in (store.log, store.restart()):
        assert log.log_end_offset == target
        assert values_of(log) == values[:target]
        kept = [e for e in ((1, 0), (2, 20)) if e[1] < target]
        assert list(log.leader_epochs.entries) == kept
    assert store.reports == []
    assert generation == 0
    again = fill(store, 5, epoch=9)
    assert store.values() == values[:target] + again
    store.restart(Store.stop)
    assert store.values() == values[:target] + again


def test_a_cut_inside_a_batch_removes_the_whole_batch(store: Store) -> None:
    store.append(b"a", b"b")
    store.append(b"c", b"d")
    store.log.truncate_to(3)
    assert store.log.log_end_offset == 2
    assert store.values() == [b"a", b"b"]


def test_truncation_at_the_end_drops_only_an_epoch_without_records(store: Store) -> None:
    fill(store, 3, epoch=1)
    store.log.assign_epoch(4)
    assert list(store.log.leader_epochs.entries) == [(1, 0), (4, 3)]
    store.log.truncate_to(10)
    assert list(store.log.leader_epochs.entries) == [(1, 0)]
    assert store.log.state.truncations == 0


def test_each_truncation_counts(store: Store) -> None:
    fill(store, 30)
    store.log.truncate_to(20)
    assert store.log.state.truncations == 1
    store.log.truncate_fully_and_start_at(50)
    assert store.log.state.truncations == 2


def test_a_log_can_start_again_above_and_below(store: Store) -> None:
    fill(store, 20)
    store.flush()
    store.checkpoint(20)
    for start in (500, 5, 0):
        store.log.truncate_fully_and_start_at(start)
        log = store.restart()
        assert (log.log_start_offset, log.log_end_offset) == (start, start)
        assert store.append(b"x", epoch=3) == start
        assert store.values() == [b"x"]
        assert log.leader_epochs.entries == ((3, start),)
        assert store.restart(Store.stop).log_start_offset == start


def test_truncation_below_the_log_begins_it_anew(store: Store) -> None:
    store.log.truncate_fully_and_start_at(100)
    fill(store, 3)
    store.log.truncate_to(50)
    assert (store.log.log_start_offset, store.log.log_end_offset) == (50, 50)


def test_flushing_makes_the_present_end_durable_and_no_more(store: Store) -> None:
    fill(store, 25)
    assert store.log.durable_offset == 0
    ticket = store.log.flush_snapshot()
    fill(store, 25)
    ticket.run()
    store.log.flushed(ticket)
    assert store.log.durable_offset == 25
    store.flush()
    assert store.log.durable_offset == 50
    idle = store.log.flush_snapshot()
    assert (idle.files, idle.sync_directory) == ((), False)


def test_a_flush_that_a_truncation_overtook_counts_for_nothing(store: Store) -> None:
    fill(store, 25)
    ticket = store.log.flush_snapshot()
    store.log.truncate_to(10)
    fill(store, 20)
    ticket.run()
    store.log.flushed(ticket)
    assert store.log.durable_offset == 0
    store.flush()
    store.log.truncate_to(15)
    assert store.log.durable_offset == 15
    assert store.log.log_end_offset == 15


def test_a_new_epoch_is_on_disk_before_its_first_record(store: Store) -> None:
    store.log.assign_epoch(5)
    assert (store.log_dir / "leader-epoch-checkpoint").read_text() == "0\n1\n5 0\n"
    store.append(b"x", epoch=7)
    assert (store.log_dir / "leader-epoch-checkpoint").read_text() == "0\n1\n7 0\n"


@pytest.mark.parametrize("number", [0, 2], ids=["the first that is read", "one behind it"])
def test_a_batch_is_served_in_the_epoch_that_the_checkpoint_names_alone(
    store: Store, number: int
) -> None:
    for epoch in (1, 2, 4):
        store.append(b"a", b"b", epoch=epoch)
    store.flush()
    whole = store.log.read(0, max_bytes=1000, limit=6).records
    size = len(whole) // 3
    assert [whole[size * n + 15] for n in range(3)] == [1, 2, 4]
    file = store.log_dir / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[size * number + 15] ^= 1
    file.write_bytes(data)
    wrong = 2 * number
    if wrong > 0:
        assert store.log.read(0, max_bytes=1000, limit=6).records == whole[: size * number]
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match=f"leader epoch {data[size * number + 15]}"):
            store.log.read(wrong, max_bytes=1000, limit=6)
    assert damaged(store.log) == [(wrong, 6)], "until a look at the whole segment says more"


def test_damage_met_by_a_read_is_not_served_and_the_rest_is(store: Store) -> None:
    fill(store, 40)
    store.flush()
    store.restart(Store.stop)
    first = store.log_dir / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[16] = 0
    first.write_bytes(data)
    end = min(int(p.stem) for p in store.log_dir.glob("*.log") if p != first)
    refused = rf"t:0: offsets 0 to {end - 1} \(0+\.log at byte 0: message format.*not served"
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match=refused):
            store.log.read(0, max_bytes=100, limit=40)
    assert store.log.read(end, max_bytes=100, limit=40).base_offset == end
    store.append(b"yes")
    assert values_around_damage(store.log)[-1] == b"yes"
