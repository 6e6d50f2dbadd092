"""`strandline-state`: changes at its end, and what a start makes of a file that a crash has cut."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.offline.checkpoints import flushed_always
from strandline_broker.storage.directory.strandline_state import (
    ALWAYS,
    FIELDS,
    FILE_NAME,
    BrokerState,
    Memory,
    read_state,
)
from strandline_runtime.real import RealFileSystem
from support.disk import FaultyDisk
from support.memory_disk import MemoryDisk

FS = RealFileSystem()
TOPIC_ID = bytes(range(16))
OTHER_ID = b"u" * 16
GOLDEN = Path(__file__).parents[4] / "golden" / "state" / "version-1"
STATES = (
    BrokerState("c", "s", 3, 7, identity="i"),
    BrokerState("c", "s", 3, 8, identity="i", hosted=frozenset({(TOPIC_ID, 0), (TOPIC_ID, 1)})),
    BrokerState("c", "s", 4, 9, ALWAYS, "i", frozenset({(TOPIC_ID, 1), (OTHER_ID, 5)})),
    BrokerState("c", "s", 4, 10, ALWAYS, "i", frozenset({(OTHER_ID, 5)})),
)
"""One after the other; each change is of several fields."""


def keep(memory: Memory, state: BrokerState) -> None:
    fields = {name: getattr(state, name) for name in FIELDS}
    before = memory.state.hosted
    memory.update(state.hosted - before, before - state.hosted, **fields)


def content_of(path: str = "/d") -> bytes:
    disk = MemoryDisk([(f"{path}/x", b"")])
    memory = Memory(disk, path)
    for state in STATES:
        keep(memory, state)
    return bytes(disk.files[f"{path}/{FILE_NAME}"])


def read(data: bytes, *, closed: bool = False) -> BrokerState:
    memory = Memory(MemoryDisk([(f"/d/{FILE_NAME}", data)]), "/d")
    memory.read(closed=closed)
    return memory.state


def test_a_file_of_version_1_loads_and_the_first_change_makes_it_version_2(tmp_path: Path) -> None:
    """As the version before this one wrote it."""
    file = tmp_path / FILE_NAME
    file.write_bytes(GOLDEN.read_bytes())
    hosted = frozenset({(TOPIC_ID, 0), (TOPIC_ID, 11), (OTHER_ID, 3)})
    expected = BrokerState(
        "MkU3OEVBNTcwNTJENDM2Qk",
        "cGFzdHVyZQcGFzdHVyZQ",
        7,
        4211,
        ALWAYS,
        "YK23dEnsgaJ44qB3xGABPg",
        hosted,
    )
    assert read_state(FS, str(tmp_path)) == expected
    assert flushed_always(FS, str(file)) == (True, False)
    memory = Memory(FS, str(tmp_path))
    memory.read(closed=True)
    memory.update(metadata_offset=4212)
    memory.close()
    assert file.read_bytes().startswith(b"strandline-state 2 ")
    assert read_state(FS, str(tmp_path)) == replace(expected, metadata_offset=4212)
    assert flushed_always(FS, str(file)) == (True, False)


def test_a_change_is_one_write_and_one_sync_however_much_is_hosted(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path / "d")
    disk.root.mkdir()
    memory = Memory(disk, str(disk.root))
    many = frozenset((TOPIC_ID, partition) for partition in range(3000))
    memory.update(many)
    file = disk.root / FILE_NAME
    size = file.stat().st_size
    disk.calls.clear()
    memory.update({(OTHER_ID, 0)}, metadata_offset=1)
    assert [call for call in disk.calls if call != "close"] == ["pwritev", "fdatasync"]
    assert file.stat().st_size - size < 100
    disk.calls.clear()
    hosted = memory.state.hosted
    memory.forget_hosted(TOPIC_ID, 7)
    assert [call for call in disk.calls if call != "close"] == ["pwritev", "fdatasync"]
    assert memory.state.hosted is hosted, "thousands are not copied for one"
    assert (len(hosted), (TOPIC_ID, 7) in hosted) == (3000, False)
    assert read_state(disk, str(disk.root)) == memory.state
    disk.calls.clear()
    memory.update({(OTHER_ID, 0)}, {(TOPIC_ID, 7)}, metadata_offset=1)
    assert disk.calls == [], "what the file says already is not written"


def test_what_a_full_disk_kept_in_the_file_goes_with_the_next_change(tmp_path: Path) -> None:
    """P-20: unless it is hosted anew by then."""
    disk = FaultyDisk(tmp_path / "d")
    disk.root.mkdir()
    memory = Memory(disk, str(disk.root))
    memory.update({(TOPIC_ID, partition) for partition in range(4)})
    disk.failing["pwritev"] = errno.ENOSPC
    for partition in (0, 1):
        memory.forget_hosted(TOPIC_ID, partition)
    with pytest.raises(OSError, match="space"):
        memory.update({(TOPIC_ID, 0)}, {(TOPIC_ID, 3)})
    assert memory.state.hosted == {(TOPIC_ID, 2), (TOPIC_ID, 3)}
    disk.failing.clear()
    memory.update({(TOPIC_ID, 0)}, metadata_offset=5)
    for found in (memory.state, read_state(disk, str(disk.root))):
        assert found is not None
        assert found.hosted == {(TOPIC_ID, 0), (TOPIC_ID, 2), (TOPIC_ID, 3)}


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    memory = Memory(FS, str(tmp_path))
    for offset in range(1000):
        memory.update(metadata_offset=offset)
        assert (tmp_path / FILE_NAME).stat().st_size < 4300
    assert read_state(FS, str(tmp_path)) == BrokerState(metadata_offset=999)


def test_a_crash_at_any_byte_leaves_what_was_told_before_the_last_change() -> None:
    """Nobody was told of a change whose line is not whole (P-20, P-76)."""
    data = content_of()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10][1:]
    assert len(ends) == len(STATES)
    for size in range(len(data) + 1):
        kept = sum(end <= size for end in ends)
        if kept == 0:
            with pytest.raises(ValueError, match="first line"):
                read(data[:size])
        else:
            assert read(data[:size]) == STATES[kept - 1], size
            if kept == len(STATES) - 1 and size not in ends:  # and a page that power took
                torn = data[:size] + bytes(len(data) - size)
                assert read(torn) == STATES[kept - 1], size


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_change_of_the_disk_keeps_what_was_told(tmp_path: Path, power: bool) -> None:
    spared = 0
    while True:
        root = tmp_path / str(spared)
        root.mkdir()
        disk = FaultyDisk(root)
        disk.settle()
        told: BrokerState | None = None
        memory = Memory(disk, str(root))
        for call in ("open", "pwritev", "fdatasync", "replace", "fsync_dir"):
            disk.spared[call], disk.failing[call] = spared, errno.EIO
        crashed = False
        for state in STATES:
            try:
                keep(memory, state)
            except OSError:
                crashed = True
                break
            told = state
        disk.failing.clear()
        if power:
            disk.crash()
        else:
            disk.kill()
        found = read_state(disk, str(root))
        at = STATES.index(told) if told is not None else -1
        assert found in (told, *STATES[at + 1 : at + 2]), spared
        if not crashed:
            return
        spared += 1


def test_after_an_error_the_file_is_replaced_whole(tmp_path: Path) -> None:
    """A sync that failed may have left pages that look clean and are on no disk (P-24)."""
    disk = FaultyDisk(tmp_path / "d")
    disk.root.mkdir()
    memory = Memory(disk, str(disk.root))
    keep(memory, STATES[0])
    disk.failing["fdatasync"] = errno.EIO
    with pytest.raises(OSError, match="durable"):
        keep(memory, STATES[1])
    assert memory.state == STATES[0]
    disk.failing.clear()
    disk.calls.clear()
    keep(memory, STATES[1])
    assert "replace" in disk.calls
    disk.crash()
    assert read_state(disk, str(disk.root)) == STATES[1]


def test_a_changed_byte_is_damage_but_in_a_last_line_that_may_be_unfinished() -> None:
    data = content_of()
    last = data.rindex(b"\n", 0, -1) + 1
    for at in range(len(data)):
        changed = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        with pytest.raises(ValueError, match=r"what was written|first line"):
            read(changed, closed=True)
        if at < last - 1:  # a line feed that is lost makes two lines one
            with pytest.raises(ValueError, match=r"what was written|first line"):
                read(changed)
        else:
            assert read(changed) == STATES[-2 if at >= last else -3]
    assert read(data, closed=True) == STATES[-1]


def test_the_offline_tools_read_the_last_word_and_say_what_is_unfinished(tmp_path: Path) -> None:
    file, data = tmp_path / FILE_NAME, content_of()
    lines = data.splitlines(keepends=True)
    for count, expected in ((2, (False, False)), (3, (False, False)), (4, (True, False))):
        file.write_bytes(b"".join(lines[:count]))
        assert flushed_always(FS, str(file)) == expected
    file.write_bytes(data[:-1])
    assert flushed_always(FS, str(file)) == (True, True)
    file.write_bytes(lines[0] + lines[1] + lines[2][:-3] + b'x"}\n' + lines[3])
    with pytest.raises(ValueError, match="change 1 is not what was written"):
        flushed_always(FS, str(file))
