"""The small formats: indexes, epochs, checkpoints; each a value in, the same value out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.storage.files.checkpoints import read_checkpoint, read_offsets, write_offsets
from strandline_broker.storage.files.sealed_file import SealedFile
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.segment.offset_index import OffsetIndex
from strandline_broker.storage.segment.recent_batches import KEPT, RecentBatches
from strandline_broker.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem

FS = RealFileSystem()


def rising(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), unique=True, max_size=40).map(sorted)


def test_an_offset_index_has_kafkas_bytes() -> None:
    index = OffsetIndex(208)
    index.append(253, 1745)
    index.append(276, 3532)
    data = bytes.fromhex("0000002d 000006d1 00000044 00000dcc")
    assert index.serialize() == data
    found = OffsetIndex.parse(208, data)
    assert found is not None
    assert (found.last_offset, found.last_position, len(found)) == (276, 3532, 2)


def test_a_time_index_has_kafkas_bytes() -> None:
    index = TimeIndex(208)
    index.append(0x018BCFE65F12, 253)
    index.append(0x018BCFE65F12, 260)  # not later, so no entry
    index.append(0x018BCFE67588, 276)
    data = bytes.fromhex("0000018bcfe65f12 0000002d 0000018bcfe67588 00000044")
    assert index.serialize() == data
    found = TimeIndex.parse(208, data)
    assert found is not None
    assert found.last == (0x018BCFE67588, 276)


@given(
    pairs=st.tuples(rising(0, 2**31 - 1), rising(1, 2**31 - 1)),
    zeros=st.integers(0, 5),
    asked=st.integers(0, 2**31),
)
def test_an_offset_index_finds_the_greatest_entry_not_above(
    pairs: tuple[list[int], list[int]], zeros: int, asked: int
) -> None:
    entries = list(zip(*pairs, strict=False))
    index = OffsetIndex(10)
    for offset, position in entries:
        index.append(10 + offset, position)
    found = OffsetIndex.parse(10, index.serialize() + bytes(8 * zeros))
    assert found is not None
    assert found.serialize() == index.serialize()
    below = [p for o, p in entries if o + 10 <= asked]
    assert found.floor(asked) == max(below, default=0)
    assert found.floor_position(asked) == max((p for _, p in entries if p <= asked), default=0)
    assert len(found.cut(asked)) == sum(p < asked for _, p in entries)
    assert (len(found), found.last_position) == (
        len(entries),
        max((p for _, p in entries), default=0),
    )


@given(
    pairs=st.tuples(rising(-(2**40), 2**62), rising(0, 2**31 - 1)),
    zeros=st.integers(0, 5),
    asked=st.integers(-(2**40), 2**62),
)
def test_a_time_index_comes_back_and_finds_the_greatest_entry_not_above(
    pairs: tuple[list[int], list[int]], zeros: int, asked: int
) -> None:
    none = NO_TIMESTAMP, 10
    entries = [(t, o) for t, o in zip(*pairs, strict=False) if t >= 1]
    index = TimeIndex(10, [t for t, _ in entries], [o for _, o in entries])
    found = TimeIndex.parse(10, index.serialize() + bytes(12 * zeros))
    assert found is not None
    assert found.serialize() == index.serialize()
    assert found.floor(asked) == max(((t, 10 + o) for t, o in entries if t <= asked), default=none)
    below = [(t, 10 + o) for t, o in entries if 10 + o < asked]
    others = [(t, 10 + o) for t, o in entries if 10 + o >= asked]
    assert len(found.cut(asked)) == len(below)
    assert found.around(asked) == below[-1:] + others[:1]


@pytest.mark.parametrize(
    "text", ["00", "00000001 00000000", "00000002 00000001 00000001 00000002", "ffffffff 00000001"]
)
def test_what_is_no_offset_index_is_refused(text: str) -> None:
    assert OffsetIndex.parse(0, bytes.fromhex(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "00",
        "0000000000000005 00000001 0000000000000005 00000002",
        "0000000000000005 00000003 0000000000000006 00000002",
        "0000000000000005 ffffffff",
    ],
)
def test_what_is_no_time_index_is_refused(text: str) -> None:
    assert TimeIndex.parse(0, bytes.fromhex(text)) is None


EPOCHS = ((2, 0), (4, 10), (7, 25))


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (2, 10)),
        (4, (4, 25)),
        (6, (4, 25)),
        (7, (7, 40)),
        (8, (-1, -1)),
    ],
)
def test_the_end_offset_of_an_epoch_is_answered_by_rule_37(
    tmp_path: Path, epoch: int, found: tuple[int, int]
) -> None:
    assert LeaderEpochs(FS, str(tmp_path), EPOCHS).end_offset_for(epoch, 40) == found
    assert LeaderEpochs(FS, str(tmp_path)).end_offset_for(epoch, 40) == (-1, -1)


def test_the_epoch_of_an_offset_is_that_of_the_last_entry_not_above(tmp_path: Path) -> None:
    epochs = LeaderEpochs(FS, str(tmp_path), EPOCHS)
    assert [epochs.epoch_at(o) for o in (0, 9, 10, 24, 25, 99)] == [2, 2, 4, 4, 7, 7]
    assert LeaderEpochs(FS, str(tmp_path), [(3, 5)]).epoch_at(4) == -1
    assert LeaderEpochs(FS, str(tmp_path)).latest() == -1


def test_an_epoch_older_than_the_latest_begins_nowhere(tmp_path: Path) -> None:
    """I-2."""
    epochs = LeaderEpochs(FS, str(tmp_path), [(3, 5)])
    with pytest.raises(KafkaStorageError, match="leader epoch 2 cannot begin behind 3"):
        epochs.assign(2, 9)
    assert epochs.entries == ((3, 5),)


def test_epochs_are_cut_at_either_end_and_kept(tmp_path: Path) -> None:
    def kept() -> tuple[tuple[int, int], ...]:
        found = LeaderEpochs.load(FS, str(tmp_path), pytest.fail)
        assert found is not None
        return found.entries

    epochs = LeaderEpochs(FS, str(tmp_path))
    epochs.assign_all(EPOCHS)
    assert kept() == EPOCHS
    epochs.assign(9, 25)  # nothing was appended in 7
    assert kept() == ((2, 0), (4, 10), (9, 25))
    epochs.drop_above(25)
    assert kept() == ((2, 0), (4, 10), (9, 25))
    epochs.truncate_from_end(25)
    assert kept() == ((2, 0), (4, 10))
    epochs.truncate_from_start(4)
    assert kept() == ((2, 4), (4, 10))
    epochs.truncate_from_start(12)
    assert kept() == ((4, 12),)
    epochs.drop_above(11)
    assert (epochs.entries, epochs.unsettled) == ((), True)
    epochs.write()
    assert kept() == ()


def test_epochs_whose_batches_are_gone_stay_known_until_the_next_append(tmp_path: Path) -> None:
    """I-53: however often the broker starts before, the file tells how far leaders have come."""

    def loaded() -> LeaderEpochs:
        found = LeaderEpochs.load(FS, str(tmp_path), pytest.fail)
        assert found is not None
        return found

    LeaderEpochs(FS, str(tmp_path)).assign_all(EPOCHS)
    for _ in range(2):
        epochs = loaded()
        assert (epochs.newest_known, epochs.parts_at(30)) == (7, 30)
        epochs.drop_above(24)
        epochs.truncate_from_start(3)
        assert epochs.entries == ((2, 3), (4, 10))
        assert (epochs.latest(), epochs.newest_known, epochs.parts_at(24)) == (4, 7, 25)
    epochs.assign(9, 24)
    assert (epochs.newest_known, epochs.parts_at(24), epochs.unsettled) == (9, 24, False)
    assert loaded().entries == ((2, 3), (4, 10), (9, 24))


def test_offsets_are_kept_in_kafkas_words(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    write_offsets(SealedFile(FS, path), {("a-b", 0): 5, ("c", 12): 2**62})
    assert (tmp_path / "checkpoint").read_bytes() == b"0\n2\na-b 0 5\nc 12 4611686018427387904\n"
    assert read_offsets(SealedFile(FS, path), pytest.fail) == {("a-b", 0): 5, ("c", 12): 2**62}


@pytest.mark.parametrize(
    "content",
    ["", "0", "0\n", "x\n0\n", "1\n0\n", "0\n1\n", "0\n-1\n", "0\n0\na 0 1\n", "0\n 1\na 0 1\n"],
)
def test_a_checkpoint_that_does_not_read_is_reported_and_absent(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "checkpoint").write_text(content)
    reports: list[str] = []
    assert read_checkpoint(FS, str(tmp_path / "checkpoint"), reports.append) is None
    assert len(reports) == 1
    assert read_checkpoint(FS, str(tmp_path / "none"), reports.append) is None
    assert len(reports) == 1


@pytest.mark.parametrize("entry", ["a 0", "a 0 1 2", "a x 1", "a 0 -1", f"a 0 {2**63}"])
def test_an_offset_that_does_not_read_makes_the_file_absent(tmp_path: Path, entry: str) -> None:
    (tmp_path / "checkpoint").write_text(f"0\n1\n{entry}\n")
    reports: list[str] = []
    assert read_offsets(SealedFile(FS, str(tmp_path / "checkpoint")), reports.append) is None
    assert len(reports) == 1


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(61, 200)), max_size=30),
    start=st.integers(0, 300),
    limit=st.integers(0, 300),
    max_bytes=st.integers(0, 900),
    before=st.sampled_from([0, 2 * KEPT]),
)
def test_recent_batches_answer_as_a_list_of_batches_does(
    sizes: list[tuple[int, int]], start: int, limit: int, max_bytes: int, before: int
) -> None:
    recent = RecentBatches(0, 0)
    batches: list[tuple[int, int, int]] = []  # (last offset, position, end)
    for count, size in [(1, 1)] * before + sizes:
        last, end = (batches[-1][0], batches[-1][2]) if batches else (-1, 0)
        batches.append((last + count, end, end + size))
        recent.append(last + count, end + size)
    if before:
        batches = batches[-(len(batches) - KEPT) :] if sizes else batches
        start, limit = start + before, limit + before
    holds = [b for b in batches if b[0] >= start and b[0] < limit]
    run = recent.run(start, limit=limit, max_bytes=max_bytes)
    assert run is not None
    position, stop, following = run
    if not holds:
        assert position == stop
        assert following == start
        return
    fitting = [b for b in holds if b[2] - holds[0][1] <= max_bytes] or holds[:1]
    assert (position, stop, following) == (holds[0][1], fitting[-1][2], fitting[-1][0] + 1)
