"""What a cleaning keeps of each batch, and how it is written again (I-68 to I-71, I-79)."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.storage.cleaner.batch_filter import BatchFilter, Counts, keys_of
from strandline_broker.storage.cleaner.cleaner import CannotClean, Cleaner, Progress, Replace
from strandline_broker.storage.cleaner.offset_map import OffsetMap
from strandline_broker.storage.cleaner.rebuilt_batch import emptied, with_records
from strandline_broker.storage.cleaner.transactions import CleanedTransactions
from strandline_broker.storage.segment.txn_index import AbortedTransaction
from strandline_proto.batch import (
    BatchHeader,
    Compression,
    build_batch,
    check_batch,
    crc_matches,
    prefix,
    raw_records,
    read_header,
    read_records,
)
from strandline_proto.decompression import DEFAULT_BOUND, Bound
from support.compaction import COMPACTED, batches_of, clean, put, records_of, state_of, task_of
from support.disk import FaultyDisk, Hurried
from support.storage import LARGE, Store

NOW_MS = 10_000
RETENTION_MS = 1000
Content = list[tuple[bytes | None, bytes | None]]


def at(
    base: int, content: Content, *, attributes: int = 0, producer_id: int = -1
) -> tuple[BatchHeader, bytes]:
    """A batch as it stands in a log; `attributes` are set on top, with a CRC that fits."""
    batch = build_batch(
        content,
        timestamp_ms=50,
        producer_id=producer_id,
        producer_epoch=2 if producer_id >= 0 else -1,
        base_sequence=5 if producer_id >= 0 else -1,
    )
    batch = prefix(base, read_header(batch).batch_length, 3) + batch[16:]
    header = read_header(batch)
    if attributes == 0:
        return header, batch
    marked = header._replace(attributes=attributes)
    return with_records(marked, list(raw_records(batch, header)))


def filtered(
    *batches: tuple[BatchHeader, bytes],
    first_dirty: int = 0,
    bound: int = 100,
    now_ms: int = NOW_MS,
    live: dict[int, int] | None = None,
    unpacked: Bound = DEFAULT_BOUND,
    counts: Counts | None = None,
    markers: dict[int, tuple[int, int]] | None = None,
    aborted: Sequence[AbortedTransaction] = (),
) -> list[tuple[BatchHeader, bytes] | None]:
    last_offsets = OffsetMap(10_000, 0.9)
    transactions = CleanedTransactions(aborted)
    for header, data in batches:
        if header.base_offset < bound and not transactions.is_aborted(header):
            last_offsets.put_all(
                (key, offset)
                for key, offset in keys_of(header, data, 0, DEFAULT_BOUND)
                if offset < bound
            )
    kept = BatchFilter(
        last_offsets,
        first_dirty=first_dirty,
        bound=bound,
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        live_producers=live or {},
        live_markers=markers or {},
        transactions=transactions,
        counts=counts or Counts(),
        unpacked=unpacked,
    )
    return [kept.filter(header, data) for header, data in batches]


def content_of(kept: tuple[BatchHeader, bytes] | None) -> list[tuple[int, bytes | None]]:
    assert kept is not None
    header, data = kept
    assert crc_matches(data, 0, header)
    assert read_header(data) == header
    return [(r.offset, r.value) for r in read_records(data, 0, header)]


def test_a_batch_of_which_all_records_stay_is_copied_byte_for_byte() -> None:
    first, second = at(0, [(b"a", b"1"), (b"b", b"2")]), at(2, [(b"c", b"3")])
    assert filtered(first, second) == [first, second]


def test_a_superseded_record_goes_and_the_others_keep_their_offsets() -> None:
    first = at(4, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    kept, _ = filtered(first, at(7, [(b"b", b"4")]))
    assert content_of(kept) == [(4, b"1"), (6, b"3")]
    assert kept is not None
    header, was = kept[0], first[0]
    assert header == was._replace(batch_length=header.batch_length, crc=header.crc, record_count=2)


def test_a_batch_of_which_nothing_stays_goes() -> None:
    kept, _ = filtered(at(0, [(b"a", b"1")]), at(1, [(b"a", b"2")]))
    assert kept is None


def test_within_one_batch_the_last_record_of_a_key_stays() -> None:
    (kept,) = filtered(at(0, [(b"a", b"1"), (b"a", b"2")]))
    assert content_of(kept) == [(1, b"2")]


def test_nothing_at_or_above_the_bound_is_touched() -> None:
    across = at(0, [(b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (None, b"4")])
    beyond = at(4, [(b"a", b"5"), (None, b"6")])
    kept, same = filtered(across, beyond, bound=2)
    assert content_of(kept) == [(1, b"2"), (2, b"3"), (3, b"4")]
    assert same == beyond


def test_a_tombstone_gets_its_horizon_at_the_first_cleaning_that_covers_its_batch() -> None:
    (kept,) = filtered(at(0, [(b"a", None), (b"b", b"1")]))
    assert kept is not None
    header, data = kept
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW_MS + RETENTION_MS)
    assert header.max_timestamp == 50
    assert [(r.timestamp, r.value) for r in read_records(data, 0, header)] == [
        (50, None),
        (50, b"1"),
    ]
    (again,) = filtered(kept, first_dirty=2, now_ms=NOW_MS + RETENTION_MS - 1)
    assert again == kept, "the horizon does not move"


def test_a_tombstone_goes_when_its_horizon_has_come_and_what_stays_keeps_its_timestamp() -> None:
    (marked,) = filtered(at(0, [(b"a", None), (b"b", b"1")]))
    assert marked is not None
    (kept,) = filtered(marked, first_dirty=2, now_ms=NOW_MS + RETENTION_MS)
    assert content_of(kept) == [(1, b"1")]
    assert kept is not None
    assert [r.timestamp for r in read_records(kept[1], 0, kept[0])] == [50]


def test_a_batch_that_is_covered_in_part_gets_no_horizon() -> None:
    batch = at(0, [(b"a", None), (b"b", None)])
    assert filtered(batch, bound=1) == [batch]


def test_a_tombstone_above_the_bound_stays_whatever_its_horizon_says() -> None:
    (marked,) = filtered(at(0, [(b"a", None), (b"b", None)]))
    assert marked is not None
    assert filtered(marked, bound=1, now_ms=NOW_MS + RETENTION_MS) == [marked]


def test_a_horizon_that_a_leader_has_set_does_not_count_for_a_followers_first_cleaning() -> None:
    """It may hold what the tombstone deletes, and a reader that has seen it here needs its time."""
    (marked,) = filtered(at(0, [(b"a", None), (b"b", b"1")]))
    assert marked is not None
    later_ms = NOW_MS + 2 * RETENTION_MS
    for first_dirty in (0, 1):
        (kept,) = filtered(marked, first_dirty=first_dirty, now_ms=later_ms)
        assert content_of(kept) == [(0, None), (1, b"1")]
        assert kept is not None
        assert kept[0].base_timestamp == later_ms + RETENTION_MS


def test_a_superseded_tombstone_goes_at_once() -> None:
    kept, _ = filtered(at(0, [(b"a", None)]), at(1, [(b"a", b"1")]))
    assert kept is None


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**62])
def test_a_horizon_fits_its_field_however_long_tombstones_stay(retention_ms: int) -> None:
    header, data = at(0, [(b"a", None)])
    (records,) = [list(raw_records(data, header))]
    horizon = min(NOW_MS + retention_ms, 2**63 - 1)
    marked, written = with_records(header, records, delete_horizon_ms=horizon)
    assert marked.base_timestamp == horizon
    assert [r.timestamp for r in read_records(written, 0, marked)] == [50]


def test_the_last_batch_of_a_live_producer_stays_as_a_bare_header() -> None:
    batch = at(4, [(b"a", b"1"), (b"b", b"2")], producer_id=7)
    later = at(6, [(b"a", b"3"), (b"b", b"4")])
    (kept, _) = filtered(batch, later, live={7: 5})
    assert kept is not None
    header, data = kept
    assert len(data) == 61
    assert crc_matches(data, 0, header)
    assert (header.record_count, header.compression) == (0, 0)
    told: tuple[str, ...] = ("base_offset", "last_offset", "producer_id", "producer_epoch")
    told += ("base_sequence", "last_sequence", "max_timestamp", "leader_epoch")
    for field in told:
        assert getattr(header, field) == getattr(batch[0], field)
    assert filtered(batch, later, live={7: 9})[0] is None, "a later batch of it is there"
    assert filtered(batch, later, live={8: 5})[0] is None, "it is another's"


def test_a_bare_header_goes_when_its_producer_has_gone_on() -> None:
    bare = emptied(at(4, [(b"a", b"1")], producer_id=7)[0])
    assert filtered(bare, live={7: 4})[0] is not None
    assert filtered(bare, live={7: 8}) == [None]


def test_records_without_a_key_go_and_are_counted() -> None:
    counts = Counts()
    (kept,) = filtered(at(0, [(None, b"1"), (b"a", b"2")]), counts=counts)
    assert content_of(kept) == [(1, b"2")]
    assert (counts.keyless_dropped, counts.records_read, counts.records_kept) == (1, 2, 1)


def test_control_batches_stay_as_they_are() -> None:
    marker = at(0, [(b"\0\0\0\1", b"x")], attributes=0x30)
    later = at(1, [(b"\0\0\0\1", b"x")])
    assert filtered(marker, later)[0] == marker
    assert keys_of(*marker, 0, DEFAULT_BOUND) == []


def test_a_record_of_a_committed_transaction_is_one_like_any_other() -> None:
    plain = at(0, [(b"a", b"1"), (b"b", b"2")])
    of_transaction = at(2, [(b"a", b"3"), (b"c", b"4")], attributes=0x10, producer_id=7)
    later = at(4, [(b"c", b"5")])
    kept, in_part, _ = filtered(plain, of_transaction, later)
    assert content_of(kept) == [(1, b"2")]
    assert content_of(in_part) == [(2, b"3")]


def test_a_record_of_an_aborted_transaction_goes_and_replaces_none() -> None:
    """I-161."""
    plain = at(0, [(b"a", b"1")])
    of_transaction = at(1, [(b"a", b"2"), (b"c", b"3")], attributes=0x10, producer_id=7)
    of_another = at(3, [(b"d", b"4")], attributes=0x10, producer_id=8)
    next_one = at(6, [(b"e", b"5")], attributes=0x10, producer_id=7)
    aborted = [AbortedTransaction(7, 1, 5, 6)]
    kept = filtered(plain, of_transaction, of_another, next_one, aborted=aborted)
    assert kept == [plain, None, of_another, next_one]
    (_, emptied_one, _, _) = filtered(
        plain, of_transaction, of_another, next_one, aborted=aborted, live={7: 2}
    )
    assert content_of(emptied_one) == [], "the producer's last batch keeps its header (I-79)"


def test_a_batch_stamped_by_the_leader_keeps_its_one_timestamp() -> None:
    first = at(0, [(b"a", b"1"), (b"b", b"2")], attributes=0x08)
    header = first[0]._replace(max_timestamp=77)
    first = with_records(header, list(raw_records(first[1], first[0])))
    kept, _ = filtered(first, at(2, [(b"a", b"3")]))
    assert kept is not None
    assert kept[0].is_log_append_time
    assert [(r.offset, r.timestamp) for r in read_records(kept[1], 0, kept[0])] == [(1, 77)]


key_or_none = st.one_of(st.none(), st.binary(max_size=6))
header_names = st.text(max_size=4)


@given(
    st.lists(st.tuples(key_or_none, key_or_none, st.integers(-2, 2**41)), min_size=1, max_size=6),
    st.lists(st.tuples(header_names, key_or_none), max_size=3),
    st.sampled_from(Compression),
    st.one_of(st.none(), st.integers(0, 2**62)),
    st.data(),
)
def test_a_batch_written_again_says_the_same_of_what_stays(
    content: list[tuple[bytes | None, bytes | None, int]],
    headers: list[tuple[str, bytes | None]],
    compression: Compression,
    horizon_ms: int | None,
    data: st.DataObject,
) -> None:
    from aiokafka.record._crecords import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=4,
        producer_epoch=1,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for i, (key, value, timestamp) in enumerate(content):
        builder.append(i, timestamp, key, value, headers)
    batch = bytes(builder.build())
    header = check_batch(batch)
    before = list(raw_records(batch, header))
    chosen = data.draw(st.sets(st.sampled_from(range(len(before))), min_size=1))
    kept = [record for i, record in enumerate(before) if i in chosen]
    after, written = with_records(header, kept, delete_horizon_ms=horizon_ms)
    assert read_header(written) == after
    assert crc_matches(written, 0, after)
    assert after.compression == compression
    assert after.last_offset_delta == header.last_offset_delta
    assert after.max_timestamp == max(r.timestamp for r in kept)
    expected = [r for r in read_records(batch, 0, header) if r.offset in chosen]
    assert list(read_records(written, 0, after)) == expected


# Whole cleanings; more of them stand in the property test.


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data", COMPACTED)


def fill(store: Store, batches: int, keys: int = 3) -> None:
    for i in range(batches):
        put(store, (b"key-%d" % (i % keys), b"value-%d" % i), timestamp_ms=100 * i)


def test_small_segments_are_merged_and_what_they_were_goes_after_a_while(store: Store) -> None:
    fill(store, 40)
    full = len(store.log.segments)
    clean(store)
    assert len(store.log.segments) == full, "two full segments are too large for one"
    fill(store, 5)
    state = state_of(records_of(store.log))
    outcome = clean(store)
    assert len(store.log.segments) < 6
    assert outcome.cleaned_to == store.log.cleaned_to == store.log.segments[-1].base_offset
    assert state_of(records_of(store.log)) == state
    assert list(store.log_dir.glob("*.deleted"))
    assert not list(store.log_dir.glob("*.cleaned")) + list(store.log_dir.glob("*.swap"))
    store.log.deleted_segments.purge(2**62)
    assert not list(store.log_dir.glob("*.deleted"))


def test_the_last_batch_of_a_cleaned_segment_stays_so_that_its_end_is_known(store: Store) -> None:
    put(store, (b"a", b"1" * 150))
    put(store, (b"b", b"2" * 150))
    fill(store, 20, keys=1)
    put(store, (b"a", b"3" * 150), (b"b", b"4" * 150))
    put(store, (b"z", b"5" * 300))
    end = store.log.log_end_offset
    clean(store)
    for segment in store.log.segments[:-1]:
        last = [h for h, _ in batches_of(store.log) if h.base_offset < segment.end_offset][-1]
        assert last.next_offset == segment.end_offset
    assert store.restart().log_end_offset == end


def test_a_cleaned_log_keeps_its_epochs_times_and_maximum(store: Store) -> None:
    fill(store, 40)
    epochs = store.log.leader_epochs.entries
    clean(store)
    assert store.log.leader_epochs.entries == epochs  # I-76
    records = records_of(store.log)
    for record in records:
        found = store.log.offset_for_timestamp(record.timestamp)
        assert found == (record.timestamp, record.offset, 0)
    assert store.log.max_timestamp() == (3900, 39, 0)


def test_the_largest_timestamp_is_that_of_a_record_that_is_there(store: Store) -> None:
    put(store, (b"a", b"1"), timestamp_ms=9999, producer=(7, 0))
    fill(store, 20)
    put(store, (b"a", b"2"))
    put(store, (b"z", b"3" * 400))
    assert store.log.max_timestamp() == (9999, 0, 0)
    clean(store, live_producers={7: 0})
    assert batches_of(store.log)[0][0].max_timestamp == 9999
    assert store.log.max_timestamp() == (1900, 20, 0)


def test_the_largest_timestamp_is_asked_for_where_compaction_left_nothing_at_the_log_start(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", COMPACTED, fs=Hurried())
    put(store, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp_ms=9000)
    store.log.roll()
    put(store, (b"b", b"2"), (b"c", b"2"))
    store.log.roll()
    put(store, (b"d", b"2"))
    store.flush()
    clean(store)
    assert batches_of(store.log)[0][0].last_offset == 2
    store.log.raise_log_start(1)  # within a batch of which only the first record stays
    assert store.log.max_timestamp() == (1000, 3, 0)


def test_cleaning_again_changes_nothing(store: Store) -> None:
    fill(store, 40)
    clean(store)
    before = {p.name: p.read_bytes() for p in store.log_dir.glob("*.log")}
    outcome = clean(store)
    assert outcome.counts.records_read == 0, "nothing is dirty"
    assert {p.name: p.read_bytes() for p in store.log_dir.glob("*.log")} == before


def test_a_segment_of_which_everything_stays_is_not_replaced(store: Store) -> None:
    put(store, (b"a", b"1" * 300))
    put(store, (b"b", b"1" * 300))
    put(store, (b"c", b"1" * 300))
    segments = store.log.segments
    clean(store)
    assert store.log.segments == segments


def test_a_bad_batch_stops_the_cleaning_and_is_named(store: Store) -> None:
    fill(store, 40)
    store.flush()
    path = store.log_dir / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[70] ^= 1
    path.write_bytes(damaged)
    before = set(store.log_dir.iterdir())
    with pytest.raises(CannotClean, match=r"0000\.log at byte 0 .* CRC-32C"):
        clean(store)
    assert set(store.log_dir.iterdir()) - before == {store.log_dir / "compacted"}


def test_records_that_do_not_parse_stop_the_cleaning_and_are_named(store: Store) -> None:
    batch = bytearray(build_batch([(b"a", b"1")], timestamp_ms=1))
    batch[61] = 0x7F  # a record of another length
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    store.log.append_as_leader(bytes(batch), read_header(batch), leader_epoch=0)
    fill(store, 40)
    with pytest.raises(CannotClean, match="the batch at offset 0 do not parse"):
        clean(store)


def test_a_cleaning_that_is_closed_leaves_the_log_and_its_directory_alone(store: Store) -> None:
    fill(store, 40)
    store.flush()
    before = {p.name: p.read_bytes() for p in store.log_dir.iterdir()}
    steps = Cleaner(store.fs, buffer_bytes=200).steps(task_of(store.log))
    seen = 0
    for step in steps:
        seen += isinstance(step, Progress)
        if isinstance(step, Replace):
            break
    assert seen > 10
    assert list(store.log_dir.glob("*.swap"))
    steps.close()
    assert {p.name: p.read_bytes() for p in store.log_dir.iterdir()} == before


def test_a_full_disk_leaves_the_log_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    disk = FaultyDisk(root)
    store = Store(root, COMPACTED, fs=disk)
    fill(store, 40)
    store.flush()
    store.log.gaps.expect()
    state = state_of(records_of(store.log))
    disk.room = 100
    with pytest.raises(OSError, match="No space") as full:
        clean(store)
    assert full.value.errno == errno.ENOSPC
    assert not list(store.log_dir.glob("*.cleaned")) + list(store.log_dir.glob("*.swap"))
    assert state_of(records_of(store.log)) == state
    disk.room = None
    assert store.log.cleaned_to == 0
    assert clean(store).cleaned_to == store.log.segments[-1].base_offset
    assert state_of(records_of(store.log)) == state


def test_truncation_takes_back_what_counts_as_cleaned(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", COMPACTED)
    fill(store, 40)
    clean(store)
    store.checkpoint()
    assert store.log.cleaned_to > 10
    store.log.truncate_to(10)
    assert store.log.cleaned_to <= 10
    fill(store, 40)
    store.restart()
    assert store.log.cleaned_to <= 10, "what the checkpoint says is of another time"


def test_the_checkpoint_says_where_to_go_on_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", COMPACTED)
    fill(store, 40)
    to = clean(store).cleaned_to
    store.checkpoint()
    text = (store.path / "cleaner-offset-checkpoint").read_text("utf-8")
    assert text == f"0\n1\nt 0 {to}\n"
    assert store.restart().cleaned_to == to


def test_a_log_that_was_never_cleaned_has_no_checkpoint_entry(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", LARGE)
    fill(store, 3)
    store.checkpoint()
    assert (store.path / "cleaner-offset-checkpoint").read_text("utf-8") == "0\n0\n"


def test_bare_headers_are_in_no_time_index_and_need_none(tmp_path: Path) -> None:
    store = Store(tmp_path, COMPACTED)
    for producer_id in range(8):
        put(store, (b"k", b"%d" % producer_id * 60), producer=(producer_id, 0), timestamp_ms=9000)
    put(store, (b"k", b"last" * 50), timestamp_ms=5000)
    put(store, (b"other", b"x" * 300), timestamp_ms=5001)
    clean(store, live_producers={p: p for p in range(8)})
    bare = store.log.segments[0]
    assert {h.record_count for h, _ in batches_of(store.log)[:8]} == {0}
    assert bare.latest() == (-1, 0)
    assert Path(bare.path("timeindex")).read_bytes() == b""
    assert store.log.max_timestamp() == (5001, 9, 0)
    for how in (Store.stop, Store.kill):
        store.restart(how)
        assert store.reports == []
        assert len(batches_of(store.log)) == 10
    for segment in store.log.segments[:-1]:
        Path(segment.path("timeindex")).write_bytes(b"")
    store.restart()
    (report,) = store.reports
    assert f"{8:020d}.log: its indexes are missing" in report, "there a record has a time"


def test_a_compacted_logs_active_segment_is_closed_in_time_to_be_cleaned() -> None:
    lag = replace(COMPACTED, segment_ms=1000, max_compaction_lag_ms=100)
    assert lag.segment_ms_of("t", 0, 0) == 100
    assert replace(lag, segment_ms=10).segment_ms_of("t", 0, 0) == 10
    assert replace(lag, cleanup_policy=("delete",)).segment_ms_of("t", 0, 0) == 1000
    jitter = replace(lag, segment_jitter_ms=10_000)
    assert all(0 <= jitter.segment_ms_of("t", 0, base) <= 100 for base in range(100))


def test_a_record_beyond_the_maximal_lag_begins_a_new_segment(tmp_path: Path) -> None:
    config = replace(COMPACTED, segment_bytes=1 << 20, max_compaction_lag_ms=100)
    store = Store(tmp_path / "data", config)
    for timestamp_ms in (1000, 1100, 1101, 1150):
        put(store, (b"a", b"%d" % timestamp_ms), timestamp_ms=timestamp_ms)
    assert [s.base_offset for s in store.log.segments] == [0, 2]
