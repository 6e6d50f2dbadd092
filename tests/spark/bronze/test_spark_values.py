"""`verify --values`: rows that are not what the topic's records are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strandline_spark.bronze import verify_values as values_module
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.task_files import write_range
from strandline_spark.bronze.verify import PartitionFindings, verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.commands.main import main
from strandline_spark.source.options import parse_options
from strandline_spark.source.splitting import PlannedRange
from support.spark_batches import MadeBatch, MadeRecord, build

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker, FakeTopic

START_MS = 1_700_000_000_000
RECORD = MadeRecord(b"key", b"value", [("h", b"1"), ("h", None)], START_MS)


def append(topic: FakeTopic, record: MadeRecord) -> None:
    topic.partitions[0].append_bytes(build(MadeBatch([record] * 10))[0])


def ingest(broker: FakeBroker, topic: FakeTopic, root: str, start: int, stop: int) -> None:
    """As a task and the driver of direct mode do it."""
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, start, stop, 0)
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    table = BronzeTable.open_or_create(root)
    made = write_range(options, planned, root, start)
    names = DataFile.__dataclass_fields__.keys() & made.keys()
    taken = CommittedRange(
        "t", made["topic_id"], 0, start, stop, made["rows"], made["skipped"], 0, made["lost"]
    )
    table.commit("j", start, [taken], [DataFile(**{n: made[n] for n in names})])


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    made = broker.create("t")
    for _ in range(4):
        append(made, RECORD)
    append(made, MadeRecord(None, None, [], START_MS))
    return made


@pytest.fixture
def root(broker: FakeBroker, topic: FakeTopic, tmp_path: Path) -> str:
    """A table of 50 rows in two files."""
    path = str(tmp_path / "table")
    ingest(broker, topic, path, 0, 20)
    ingest(broker, topic, path, 20, 50)
    return path


def checked(root: str, broker: FakeBroker) -> PartitionFindings:
    (found,) = verify(root, "t", broker.address, values=True)
    return found


@pytest.mark.parametrize("window", [1 << 20, 7])
def test_rows_that_are_the_records_are_sound(
    root: str, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(values_module, "WINDOW", window)
    found = checked(root, broker)
    assert (found.rows, found.unchecked, found.differing, found.sound) == (50, 0, 0, True)
    (without,) = verify(root, "t", broker.address)
    assert (without.unchecked, without.differing) == (-1, -1)


@pytest.mark.parametrize(
    "other",
    [
        MadeRecord(b"other", b"value", RECORD.headers, START_MS),
        MadeRecord(b"key", b"valuf", RECORD.headers, START_MS),
        MadeRecord(b"key", None, RECORD.headers, START_MS),
        MadeRecord(b"key", b"", RECORD.headers, START_MS),
        MadeRecord(b"key", b"value", [], START_MS),
        MadeRecord(b"key", b"value", [("h", b"1"), ("h", b"")], START_MS),
        MadeRecord(b"key", b"value", RECORD.headers, START_MS + 1),
        MadeRecord(b"keyvalue", b"", RECORD.headers, START_MS),
    ],
)
@pytest.mark.parametrize("window", [1 << 20, 7])
def test_a_row_that_differs_in_anything_is_counted_and_the_first_is_named(
    root: str,
    broker: FakeBroker,
    topic: FakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    other: MadeRecord,
    window: int,
) -> None:
    monkeypatch.setattr(values_module, "WINDOW", window)
    kept = topic.partitions[0].batches[3:]
    del topic.partitions[0].batches[2:]
    append(topic, other)
    topic.partitions[0].batches += kept
    found = checked(root, broker)
    assert (found.differing, found.unchecked) == (10, 0)
    assert found.problems == [
        "10 rows are not what the topic's records are, the first at offset 20"
    ]


def test_rows_whose_records_are_gone_are_unchecked(
    root: str, broker: FakeBroker, topic: FakeTopic
) -> None:
    topic.partitions[0].log_start = 15
    # Compaction has taken one batch out of the middle.
    del topic.partitions[0].batches[3]
    found = checked(root, broker)
    assert (found.unchecked, found.differing, found.sound) == (25, 0, True)
    topic.topic_id = bytes(16)
    found = checked(root, broker)
    assert (found.unchecked, found.differing) == (50, 0)
    assert "another topic id" in found.problems[0]


def test_a_record_that_does_not_read_is_said_in_one_line(
    root: str, broker: FakeBroker, topic: FakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.partitions[0].damaged_answers = 10
    with pytest.raises(SystemExit) as ended:
        main(["verify", root, "t", "--values", "--bootstrap", broker.address])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "error: t:0 at offset 40: CRC-32C does not match"


def test_the_command_compares_values(
    root: str, broker: FakeBroker, topic: FakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> tuple[object, dict[str, object]]:
        with pytest.raises(SystemExit) as ended:
            main(["verify", root, "t", "--values", "--bootstrap", broker.address, "--format=json"])
        (partition,) = json.loads(capsys.readouterr().out)["partitions"]
        return ended.value.code, partition

    status, partition = run()
    assert (status, partition["differing"], partition["unchecked"]) == (0, 0, 0)
    del topic.partitions[0].batches[:]
    for _ in range(5):
        append(topic, MadeRecord(b"x", b"y", [], START_MS))
    status, partition = run()
    assert (status, partition["differing"]) == (1, 50)
