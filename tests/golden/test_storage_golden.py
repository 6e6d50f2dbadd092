"""Partition directories that Apache Kafka wrote, opened as our own: same batches, same answers."""

from pathlib import Path

import pytest

from strandline_proto.batch import iter_headers
from strandline_proto.ids import topic_id_text
from support.kafka_golden import (
    copy_to,
    described,
    expected_batches,
    header_fields,
    manifest,
    opened,
)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return copy_to(tmp_path / "golden")


def test_a_directory_that_kafka_closed_is_opened_as_it_is(golden: Path) -> None:
    before = {p: p.read_bytes() for p in (golden / "clean").rglob("*") if p.is_file()}
    directory, logs, reports = opened(golden / "clean")
    assert (directory.clean, directory.previous_broker_epoch) == (True, 209)
    assert directory.directory_id == "YK23dEnsgaJ44qB3xGABPg"
    assert directory.findings == []
    assert reports == []
    assert len(logs) == 14
    for name, log in logs.items():
        found = [described(h) for h in log.batch_headers(log.log_start_offset)]
        assert found == [header_fields(b) for b in expected_batches("clean", name)], name
        metadata = (golden / "clean" / name / "partition.metadata").read_text()
        assert metadata == f"version: 0\ntopic_id: {topic_id_text(log.topic_id)}"
    kept = {p: b for p, b in before.items() if p.name != ".kafka_cleanshutdown"}
    assert {p: p.read_bytes() for p in kept} == kept


def test_ends_and_epochs_are_those_of_the_checkpoints(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    lines = (golden / "clean/recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    ends = {f"{t}-{p}": int(o) for t, p, o in (line.split(" ") for line in lines)}
    assert {name: log.log_end_offset for name, log in logs.items()} == ends
    assert logs["epochs-0"].leader_epochs.entries == ((0, 0), (2, 25), (4, 50), (6, 75))
    assert logs["epochs-0"].leader_epochs.end_offset_for(3, 75) == (2, 50)


def test_every_batch_is_found_from_every_offset(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    for name, log in logs.items():
        headers = list(log.batch_headers(log.log_start_offset))
        for offset in range(log.log_start_offset, log.log_end_offset):
            holds = next((h for h in headers if h.last_offset >= offset), None)
            run = log.read(offset, max_bytes=1, limit=log.log_end_offset)
            if holds is None:
                assert run.records == b""  # what compaction left behind the last batch
                continue
            found = [h for _, h in iter_headers(run.records)]
            assert found == [holds], (name, offset)
            assert run.next_offset > offset


def test_offsets_for_times_are_what_the_broker_answered(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    for text, offset in manifest()["offsets_for_times"]["plain-0"].items():
        found = logs["plain-0"].offset_for_timestamp(int(text))
        assert (-1 if found is None else found[1]) == offset, text


def test_a_directory_that_kafka_left_when_killed_is_recovered_whole(golden: Path) -> None:
    killed = golden / "killed"
    directory, logs, reports = opened(killed)
    log = logs["unclean-0"]
    expected = [header_fields(batch) for batch in expected_batches("killed", "unclean-0")]
    assert [described(h) for h in log.batch_headers(0)] == expected
    assert reports == []
    log.close()
    directory.close()
    folder = killed / "unclean-0"
    assert len((folder / f"{0:020d}.index").read_bytes()) == 6 * 8
    assert opened(killed)[1]["unclean-0"].log_end_offset == log.log_end_offset


def test_indexes_rebuilt_from_the_log_are_those_that_kafka_wrote(golden: Path) -> None:
    folder = golden / "clean/plain-0"
    kafkas = {p.name: p.read_bytes() for p in folder.glob("*index")}
    for name in kafkas:
        (folder / name).unlink()
    directory, logs, reports = opened(golden / "clean")
    assert len(reports) == 3
    logs["plain-0"].close()
    directory.close()
    assert {p.name: p.read_bytes() for p in folder.glob("*index")} == kafkas
