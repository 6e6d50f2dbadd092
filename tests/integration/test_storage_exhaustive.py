"""Every byte position of a small log, cut there and changed there, and what a start makes of it.

A log of two segments, two leader epochs and one idempotent producer is opened after each fault, as
it was stopped and as it was killed, with its recovery point at the end and at 0. What is served was
written, there, as it was; what was durable is served or refused; a second opening finds the same;
and the offline verification, asked before, has told of whatever is then refused, cut or missing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from strandline_broker.offline.roots import verify
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.files.damage import DamagedLog
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_broker.storage.log.producer_snapshot import Entry, serialize
from strandline_proto.batch import (
    build_batch,
    crc_matches,
    iter_headers,
    read_header,
    read_records,
)
from strandline_proto.errors import CorruptMessage, KafkaStorageError
from support.disk import Hurried
from support.memory_disk import MemoryDisk
from support.storage import Store

pytestmark = pytest.mark.integration

CONFIG: Final = LogConfig(segment_bytes=400, index_interval_bytes=90)
ROOT: Final = "/data"
PARTITION: Final = f"{ROOT}/t-0"
RECOVERY_POINTS: Final = f"{ROOT}/recovery-point-offset-checkpoint"
LOG_STARTS: Final = f"{ROOT}/log-start-offset-checkpoint"
MARKER: Final = f"{ROOT}/.kafka_cleanshutdown"
CHECKPOINTS: Final = (
    RECOVERY_POINTS,
    f"{RECOVERY_POINTS}.seal",
    f"{ROOT}/replication-offset-checkpoint",
    LOG_STARTS,
    f"{LOG_STARTS}.seal",
    MARKER,
)

Fault = Callable[[bytes, int], bytes]


def cut(data: bytes, at: int) -> bytes:
    return data[:at]


def flip(data: bytes, at: int) -> bytes:
    """Another bit at each position, so that all eight are met many times."""
    return data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def invert(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@dataclass(frozen=True)
class Written:
    disk: MemoryDisk
    values: dict[int, bytes]
    """offset -> value of every record."""

    snapshots: dict[int, bytes]
    """offset -> the producers' state there."""

    @property
    def end(self) -> int:
        return max(self.values) + 1


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Twelve offsets from 0 on, cleanly stopped."""
    root = tmp_path_factory.mktemp("exhaustive") / "data"
    store = Store(root, CONFIG, fs=Hurried())
    values: dict[int, bytes] = {}
    sequence = 0
    state: list[Entry] = []
    store.log.producers = lambda: state
    for i, (count, epoch) in enumerate([(2, 1), (1, 1), (3, 1), (1, 4), (2, 4), (1, 4), (2, 4)]):
        records = [b"%d of %d" % (len(values) + n, i) for n in range(count)]
        batch = build_batch(
            [(b"k", value) for value in records],
            timestamp_ms=1_700_000_000_000 + i,
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
        )
        sequence += count
        store.log.append_as_leader(batch, read_header(batch), leader_epoch=epoch)
        values.update(enumerate(records, start=len(values)))
        end = len(values) - 1
        state[:] = [(5, 0, sequence - 1, end, count - 1, 1_700_000_000_000 + i, -1, -1, -1)]
    store.stop()
    found = MemoryDisk.copy_of(root, ROOT)
    assert sum(path.endswith(".log") for path in found.files) == 2
    snapshots = {
        int(path[-29:-9]): bytes(data)
        for path, data in found.files.items()
        if path.endswith(".snapshot")
    }
    assert sorted(snapshots) == [7, 12]
    return Written(found, values, snapshots)


def by_another(disk: MemoryDisk, path: str, content: bytes) -> None:
    """Kafka, or an earlier version, wrote it."""
    disk.unlink(f"{path}.seal")
    disk.change(path, lambda _: content)


def killed(disk: MemoryDisk) -> None:
    disk.unlink(MARKER)


def unflushed(disk: MemoryDisk) -> None:
    by_another(disk, RECOVERY_POINTS, b"0\n1\nt 0 0\n")


STATES: Final[dict[str, tuple[Callable[[MemoryDisk], None], ...]]] = {
    "stopped": (),
    "killed": (killed,),
    "stopped, recovery point 0": (unflushed,),
    "killed, recovery point 0": (killed, unflushed),
}


@dataclass(frozen=True)
class Opened:
    """What a start made of the disk."""

    refused: str | None
    served: dict[int, bytes]
    withheld: frozenset[int]
    """Offsets that a reader is refused, by the broker or by the CRC that it checks itself."""
    reports: tuple[str, ...]
    state: tuple[int, bytes] | None = None
    """Offset and bytes of the producer snapshot that would be loaded."""


def opened(disk: MemoryDisk) -> Opened:
    disk.kill()
    reports: list[str] = []
    try:
        directory = DataDirectory.open(
            disk, ROOT, node_id=1, cluster_id=None, new_id=lambda: bytes(16)
        )
        found = directory.partitions()
        if not found:
            return Opened("ignored", {}, frozenset(), tuple(directory.findings))
        log = directory.load_log(found[0], CONFIG, reports.append)
    except (DamagedLog, DirectoryError) as refused:
        return Opened(str(refused), {}, frozenset(), ())
    served, withheld = read(log)
    loaded = log.snapshots.newest(at_least=0, at_most=log.log_end_offset)
    state = None if loaded is None else (loaded[0], serialize(loaded[1]))
    return Opened(None, served, withheld, (*directory.findings, *reports), state)


def read(log: Log) -> tuple[dict[int, bytes], frozenset[int]]:
    """Everything from the log's start to its end, as a consumer reads it; what is refused is passed
    over one offset at a time.
    """
    served: dict[int, bytes] = {}
    withheld: set[int] = set()
    position = log.log_start_offset
    while position < log.log_end_offset:
        try:
            run = log.read(position, max_bytes=1 << 20, limit=log.log_end_offset)
        except KafkaStorageError:
            withheld.add(position)
            position += 1
            continue
        if not run.records:
            break
        sound = consumed(run.records, position, served)
        withheld.update(range(sound, run.next_offset))
        assert run.next_offset > position
        position = run.next_offset
    return served, frozenset(withheld)


def consumed(data: bytes, position: int, served: dict[int, bytes]) -> int:
    """Add the records from `position` on to `served`, as far as the batches are sound; the offset
    behind them.
    """
    try:
        for at, header in iter_headers(data):
            if not crc_matches(data, at, header):
                break
            for record in read_records(data, at, header):
                if record.offset >= position:
                    served[record.offset] = record.value or b""
            position = header.next_offset
    except CorruptMessage:
        return position
    return position


def told(disk: MemoryDisk) -> list[str]:
    """What the offline verification finds; it changes nothing."""
    before = disk.copy().files
    found = [
        f"{each.severity.value} {each.path} {each.what}"
        for report in verify(disk, ROOT)
        for each in report.findings
    ]
    assert disk.files == before
    return found


def faults(
    written: Written, state: str, fault: Fault, thirds: tuple[int, ...] = (0, 1, 2)
) -> Iterator[tuple[str, int, MemoryDisk]]:
    base = written.disk.copy()
    for change in STATES[state]:
        change(base)
    paths = [p for p in base.files if p.startswith(f"{PARTITION}/") or p in CHECKPOINTS]
    for path in paths:
        for at in range(len(base.files[path])):
            if at % 3 not in thirds:
                continue
            disk = base.copy()
            disk.change(path, lambda data, at=at: fault(data, at))  # type: ignore[misc]
            yield path, at, disk


A_THIRD, OTHERS = (0,), (1, 2)
"""Thirds of all bytes, by their places."""


@pytest.mark.parametrize(
    ("fault", "thirds"),
    [
        pytest.param(cut, A_THIRD, id="cut-a third"),
        pytest.param(flip, A_THIRD, id="flip-a third"),
        pytest.param(cut, OTHERS, id="cut-the others", marks=pytest.mark.proof),
        pytest.param(flip, OTHERS, id="flip-the others", marks=pytest.mark.proof),
        pytest.param(invert, A_THIRD, id="invert-a third", marks=pytest.mark.proof),
    ],
)
@pytest.mark.parametrize("state", STATES)
def test_a_fault_at_any_byte_is_found_and_never_served(
    written: Written, state: str, fault: Fault, thirds: tuple[int, ...]
) -> None:
    durable = 0 if "recovery point 0" in state else written.end
    wrong = []
    count = 0
    for path, at, disk in faults(written, state, fault, thirds):
        count += 1
        findings = told(disk)
        first = opened(disk)
        problems = judged(written, durable, first, findings, path)
        problems += settled(written, disk, first)
        wrong += [f"{path} {at}: {problem}; {findings}" for problem in problems]
    assert count > 160 * len(thirds)
    assert wrong == []


def settled(written: Written, disk: MemoryDisk, first: Opened) -> list[str]:
    """A start after a stop reads little, and its traces make the next one read all. From then on
    nothing changes, and nothing that was refused is gone.
    """
    second, third = opened(disk), opened(disk)
    problems = []
    if (second.served, second.withheld) != (third.served, third.withheld):
        problems.append(f"a third opening differs from the second: {second}, {third}")
    wrong = {o: v for o, v in second.served.items() if written.values.get(o) != v}
    if wrong:
        problems.append(f"{wrong} are served by the second opening")
    if not first.served.keys() <= second.served.keys() | second.withheld and not second.refused:
        problems.append(f"a second opening lost records: {first}, {second}")
    return problems


def judged(
    written: Written, durable: int, found: Opened, findings: list[str], path: str
) -> list[str]:
    problems = []
    for offset, value in found.served.items():
        if written.values.get(offset) != value:
            problems.append(f"offset {offset} is served as {value!r}")
    lost = [
        offset
        for offset in written.values
        if found.refused is None and offset not in found.served and offset not in found.withheld
    ]
    if any(offset < durable for offset in lost):
        problems.append(f"offsets {lost} are missing without a word; {found.reports}")
    if found.state is not None and written.snapshots.get(found.state[0]) != found.state[1]:
        problems.append(f"the producers' state is loaded as {found.state}")
    if not findings and (found.refused or found.withheld or lost):
        problems.append(f"nothing was found, and {found}")
    return problems


def test_a_log_start_beyond_the_end_of_a_log_that_was_stopped_is_not_believed(
    written: Written,
) -> None:
    """One changed digit must not have every record removed."""
    disk = written.disk.copy()
    by_another(disk, LOG_STARTS, b"0\n1\nt 0 90\n")
    assert any("the log starts at offset 90 and ends at 12" in each for each in told(disk))
    found = opened(disk)
    assert found.served == written.values
    assert any("90" in report and "not believed" in report for report in found.reports)


def starts(data: bytes) -> list[int]:
    """Where each batch begins."""
    return [at for at, _ in iter_headers(data)]


@pytest.fixture(scope="module")
def compacted(written: Written) -> Written:
    """The same log without the second batch of each segment, as a cleaning leaves it."""
    disk, values = written.disk.copy(), dict(written.values)
    disk.files[f"{PARTITION}/compacted"] = bytearray()
    for path in [p for p in disk.files if p.endswith(".log")]:
        data = bytes(disk.files[path])
        _, second, third, *_ = starts(data)
        gone = read_header(data, second)
        for offset in range(gone.base_offset, gone.next_offset):
            del values[offset]
        disk.change(path, lambda data, a=second, b=third: data[:a] + data[b:])  # type: ignore[misc]
        for kind in ("index", "timeindex"):
            disk.change(path.removesuffix("log") + kind, lambda _: b"")
    # A start makes the indexes anew.
    assert opened(disk).served == values
    disk.kill()
    disk.files[MARKER] = bytearray(written.disk.files[MARKER])
    assert told(disk) == [], told(disk)
    return Written(disk, values, written.snapshots)


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        pytest.param("stopped", flip, id="stopped-flip", marks=pytest.mark.proof),
        pytest.param("killed", cut, id="killed-cut"),
        pytest.param("stopped", cut, id="stopped-cut", marks=pytest.mark.proof),
        pytest.param("killed", flip, id="killed-flip", marks=pytest.mark.proof),
        pytest.param("stopped", invert, id="stopped-invert", marks=pytest.mark.proof),
        pytest.param("killed", invert, id="killed-invert", marks=pytest.mark.proof),
    ],
)
def test_in_a_compacted_log_only_offsets_beside_a_gap_can_lie(
    compacted: Written, state: str, fault: Fault
) -> None:
    """A base offset that was changed into a gap looks like the work of the cleaner: all else is
    found, as above.
    """
    unseen = set()
    lies = {
        (path, at + byte): frozenset(range(header.base_offset, header.next_offset))
        for path, data in compacted.disk.files.items()
        if path.endswith(".log")
        for at, header in iter_headers(bytes(data))
        for byte in range(8)
    }
    for path, at, disk in faults(compacted, state, fault):
        findings = told(disk)
        found = opened(disk)
        problems = judged(compacted, compacted.end, found, findings, path)
        problems += settled(compacted, disk, found)
        if problems:
            unseen.add((path, at))
            its_own = lies.get((path, at), frozenset())
            assert compacted.values.keys() - found.served.keys() - found.withheld <= its_own
    assert unseen <= lies.keys()
    assert (unseen == set()) == (fault is cut)
