"""Each partition directory that Apache Kafka wrote: its records, its producers, recovered, written
on, and its files written anew byte for byte.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_broker.storage.log.log import Log
from strandline_broker.storage.log.producer_snapshot import SNAPSHOT_NAME, parse, serialize
from strandline_proto.batch import Compression, build_batch, read_header
from support.kafka_golden import (
    CLEAN,
    CLEAN_WITH_LOG,
    CONFIG,
    GOLDEN,
    Batch,
    close,
    copy_to,
    described,
    expected_batches,
    header_fields,
    opened,
    read_all,
)
from support.producer_log import DAY_MS, ProducerLog, loaded, replayed
from support.storage import Store

OWN_TOPICS = ("__consumer_offsets", "__transaction_state")
"""Of whose records the manifest has the offsets only."""


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return copy_to(tmp_path / "golden")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Log]]:
    """All logs of `clean`, for reading."""
    directory, logs, _ = opened(copy_to(tmp_path_factory.mktemp("kafka") / "golden") / "clean")
    yield logs
    directory.close()


def text(field: bytes | None) -> str | None:
    return None if field is None else field.decode("utf-8")


def check_records(log: Log, expected: list[Batch], *, own_topic: bool = False) -> None:
    found = read_all(log)
    assert [described(header) for header, _ in found] == [header_fields(b) for b in expected]
    for (header, records), batch in zip(found, expected, strict=True):
        if own_topic:
            assert [r.offset for r in records] == batch["records"]
            continue
        assert len(records) == header.record_count
        for record, said in zip(records, batch["records"], strict=True):
            assert record.offset == said["offset"]
            if header.is_control:
                assert record.key is not None
                assert record.key[3] == ("ABORT", "COMMIT").index(said["endTxnMarker"])
                assert len(record.value or b"") == said["value_size"]
                continue
            assert (text(record.key), text(record.value)) == (said["key"], said["value"])
        times = [r.timestamp for r in records]
        assert header.is_log_append_time or max(times) <= header.max_timestamp


@pytest.mark.parametrize("name", CLEAN_WITH_LOG)
def test_every_record_reads_as_kafka_reads_it(name: str, unchanged: dict[str, Log]) -> None:
    expected = expected_batches("clean", name)
    check_records(unchanged[name], expected, own_topic=name.startswith(OWN_TOPICS))


def test_the_records_of_a_killed_broker_read_as_kafka_reads_them(golden: Path) -> None:
    _, logs, _ = opened(golden / "killed")
    check_records(logs["unclean-0"], expected_batches("killed", "unclean-0"))


def test_headers_codecs_and_flags_are_all_there(unchanged: dict[str, Log]) -> None:
    """What the other tests compare would mean little if the directories did not hold it."""
    batches = [batch for log in unchanged.values() for batch in read_all(log)]
    assert {header.compression for header, _ in batches} == set(Compression)
    assert {header.attributes >> 3 for header, _ in batches} == {0, 1, 2, 6, 8}
    headers = [r.headers for _, records in batches for r in records if r.headers]
    assert any(value is None for found in headers for _, value in found)
    assert any(not (value or b"").isascii() for found in headers for _, value in found)
    assert any(len({key for key, _ in found}) < len(found) for found in headers)


@pytest.mark.parametrize("name", CLEAN_WITH_LOG)
def test_the_state_of_producers_is_what_kafka_kept(name: str, unchanged: dict[str, Log]) -> None:
    """At each of Kafka's snapshots, from the batches before it: Kafka's bytes."""
    log = unchanged[name]
    files = [p for p in (GOLDEN / "clean" / name).iterdir() if SNAPSHOT_NAME.fullmatch(p.name)]
    for path in files:
        offset = int(path.stem)
        producers = ProducerStates(DAY_MS)
        below = (item for item in log.replay(0) if item[0].last_offset < offset)
        producers.rebuild(below, 0)
        assert serialize(producers.entries()) == path.read_bytes(), path.name
        assert serialize(parse(path.read_bytes())) == path.read_bytes()
    if log.log_end_offset > 0:
        assert log.log_end_offset in [int(path.stem) for path in files]


def test_logs_that_are_closed_again_have_the_files_that_kafka_left(golden: Path) -> None:
    directory, logs, reports = opened(golden / "clean")
    for log in logs.values():
        loaded(log)
    close(directory, logs)
    assert reports == []
    for name in CLEAN:
        before = {p.name: p.read_bytes() for p in (GOLDEN / "clean" / name).iterdir()}
        after = {p.name: p.read_bytes() for p in (golden / "clean" / name).iterdir()}
        assert after.pop("partition.metadata.seal").startswith(b"seal 1 ")
        # Kafka takes no snapshot of a log that is empty.
        if logs[name].log_end_offset == 0:
            before[f"{0:020d}.snapshot"] = serialize([])
        assert after == before, name


def forget_what_was_clean(root: Path) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):
        for path in root.glob(f"*/{pattern}"):
            path.unlink()


def test_without_marker_indexes_and_snapshots_everything_is_recovered(golden: Path) -> None:
    forget_what_was_clean(golden / "clean")
    directory, logs, _ = opened(golden / "clean")
    for name in CLEAN_WITH_LOG:
        own = name.startswith(OWN_TOPICS)
        check_records(logs[name], expected_batches("clean", name), own_topic=own)
        kafkas = GOLDEN / "clean" / name / f"{logs[name].log_end_offset:020d}.snapshot"
        if kafkas.exists():
            assert serialize(loaded(logs[name]).entries()) == kafkas.read_bytes()
    close(directory, logs)


def test_indexes_rebuilt_from_the_log_are_those_that_kafka_wrote(golden: Path) -> None:
    forget_what_was_clean(golden / "clean")
    directory, logs, _ = opened(golden / "clean")
    close(directory, logs)
    for name in CLEAN:
        for theirs in (GOLDEN / "clean" / name).glob("*index"):
            ours = golden / "clean" / name / theirs.name
            assert ours.read_bytes() == theirs.read_bytes(), f"{name}/{theirs.name}"


@pytest.mark.parametrize("clean", [True, False])
def test_every_log_is_appended_to_closed_and_opened_again(golden: Path, clean: bool) -> None:
    if not clean:
        forget_what_was_clean(golden / "clean")
    directory, logs, _ = opened(golden / "clean")
    appended = {}
    for name, log in logs.items():
        loaded(log)
        epoch = log.leader_epochs.latest() + 1
        batch = build_batch([(b"k", b"of ours")] * 3, timestamp_ms=1_800_000_000_000)
        for _ in range(200):
            log.append_as_leader(batch, read_header(batch), leader_epoch=epoch)
        appended[name] = 600
        assert len(log.segments) > 1, "it has rolled"
    ends = {name: log.log_end_offset for name, log in logs.items()}
    close(directory, logs)
    directory, logs, reports = opened(golden / "clean")
    assert (directory.clean, reports) == (True, [])
    for name, log in logs.items():
        assert log.log_end_offset == ends[name]
        batches = read_all(log)
        kafkas = expected_batches("clean", name)
        assert [described(h) for h, _ in batches[:-200]] == [header_fields(b) for b in kafkas]
        assert all([r.value for r in rs] == [b"of ours"] * 3 for _, rs in batches[-200:])
        found = log.offset_for_timestamp(1_795_999_999_999)
        assert found is not None
        assert found[1] == ends[name] - appended[name], "Kafka's records are older"
        assert loaded(log).entries() == replayed(log).entries()
    close(directory, logs)


def test_a_killed_log_is_recovered_appended_to_and_opened_again(golden: Path) -> None:
    root = golden / "killed"
    directory, logs, _ = opened(root)
    log = logs["unclean-0"]
    loaded(log)
    batch = build_batch([(None, b"more")], timestamp_ms=1_800_000_000_000)
    log.append_as_leader(batch, read_header(batch), leader_epoch=9)
    end = log.log_end_offset
    close(directory, logs)
    _, logs, reports = opened(root)
    assert reports == []
    assert logs["unclean-0"].log_end_offset == end
    assert read_all(logs["unclean-0"])[-1][1][0].value == b"more"


@pytest.mark.parametrize("name", ["txn-0", "idempotent-0"])
def test_a_cut_anywhere_leaves_the_state_of_what_is_left(name: str, golden: Path) -> None:
    directory, logs, _ = opened(golden / "clean")
    log = logs[name]
    for to in range(log.log_end_offset, -1, -7):
        log.truncate_to(to)
        assert loaded(log).entries() == replayed(log).entries()
        aborted = list((golden / "clean" / name).glob("*.txnindex"))
        assert sum(p.stat().st_size for p in aborted) == 34 * sum(
            end < to for end in (19, 30, 49) if name == "txn-0"
        )
    directory.close()


def test_the_root_of_the_directory_is_kept_byte_for_byte(golden: Path) -> None:
    root = golden / "clean"
    directory, logs, _ = opened(root)
    close(directory, logs, epoch=209)
    for name in ("meta.properties", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"):
        assert (root / name).read_bytes() == (GOLDEN / "clean" / name).read_bytes(), name
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        ours, theirs = ((d / name).read_text().splitlines() for d in (root, GOLDEN / "clean"))
        assert (ours[:2], sorted(ours[2:])) == (theirs[:2], sorted(theirs[2:])), name
    assert len(CLEAN) == 14


NOT_COMPACTED = ["plain-0", "codecs-0", "idempotent-0", "txn-0", "logappend-0", "epochs-0"]


@pytest.mark.parametrize("name", NOT_COMPACTED)
def test_the_same_batches_appended_anew_make_the_same_files(name: str, tmp_path: Path) -> None:
    """Segments begin where Kafka began them; indexes and snapshots are Kafka's."""
    directory, logs, _ = opened(copy_to(tmp_path / "golden") / "clean")
    kafkas = logs[name]
    p = ProducerLog(Store(tmp_path / "ours", CONFIG))
    for epoch, start in kafkas.leader_epochs.entries:
        assert p.log.log_end_offset >= start
        p.log.assign_epoch(epoch)
        end = kafkas.leader_epochs.end_offset_for(epoch, kafkas.log_end_offset)[1]
        while p.log.log_end_offset < end:
            p.copy_from(kafkas, max_bytes=1, epoch=epoch)
    p.log.close()
    expected = {
        path.name: path.read_bytes()
        for path in (GOLDEN / "clean" / name).iterdir()
        if path.name != "partition.metadata"
    }
    ours = {path.name: path.read_bytes() for path in p.store.log_dir.iterdir()}
    for name in ("partition.metadata", "partition.metadata.seal", "leader-epoch-checkpoint.seal"):
        del ours[name]
    assert ours == expected
    directory.close()


@pytest.mark.parametrize("indexed", [True, False])
def test_every_time_is_looked_up_as_a_scan_of_all_records_finds_it(
    golden: Path, indexed: bool
) -> None:
    if not indexed:
        forget_what_was_clean(golden / "clean")
    directory, logs, _ = opened(golden / "clean")
    for name, log in logs.items():
        records = [r for _, records in read_all(log) for r in records]
        times = {r.timestamp + d for r in records for d in (-1, 0, 1)}
        for time in sorted(times)[:: 1 + len(times) // 60]:
            expected = next((r for r in records if r.timestamp >= time), None)
            found = log.offset_for_timestamp(time)
            assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset)), (
                name,
                time,
            )
        latest = max(records, key=lambda r: (r.timestamp, -r.offset), default=None)
        found = log.max_timestamp()
        assert (found and found[:2]) == (latest and (latest.timestamp, latest.offset)), name
    directory.close()
