"""`replay`: exactly the range, in one commit, into a table that is empty, or nothing at all."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from strandline_spark.bronze import replay as replay_module
from strandline_spark.bronze.audit import audit_path
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.replay import replay
from strandline_spark.bronze.task_files import write_range
from strandline_spark.bronze.verify import verify
from strandline_spark.commands.main import main
from strandline_spark.commands.replay import options_of
from strandline_spark.errors import DataLoss, OptionError, TableError

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_spark.bronze.micro_batch import BatchReport
    from support.fake_broker_sync import FakeBroker, FakeTopic


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """Two partitions of 3 batches of 10 records, a second between the batches."""
    made = broker.create("t", 2)
    for partition in made.partitions:
        for n in range(3):
            partition.append([(None, b"v")] * 10, timestamp_ms=1_700_000_000_000 + 1000 * n)
    return made


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def run(broker: FakeBroker, root: str, start: str, end: str) -> BatchReport:
    return replay(options_of(broker.address, "t", start, end), root, lambda line: None)


def offsets(root: str) -> list[tuple[int, int]]:
    found = BronzeTable.open(root).delta.to_pyarrow_table().select(["partition", "offset"])
    return sorted((row["partition"], row["offset"]) for row in found.to_pylist())


def test_a_range_of_offsets_is_in_the_table_and_nothing_else(
    broker: FakeBroker, topic: FakeTopic, root: str
) -> None:
    report = run(broker, root, '{"t": {"0": 5, "1": 12}}', '{"t": {"0": 25, "1": 12}}')
    assert (report.rows, report.files) == (20, 1)
    assert offsets(root) == [(0, n) for n in range(5, 25)]
    found = verify(root, "t", broker.address, values=True)
    assert [(one.rows, one.differing, one.sound) for one in found] == [(20, 0, True), (0, 0, True)]
    (row,) = DeltaTable(audit_path(root)).to_pyarrow_table().to_pylist()
    assert (row["start_offset"], row["end_offset"], row["high_watermark"]) == (5, 25, 30)


def test_times_are_the_first_record_at_or_after_them(
    broker: FakeBroker, topic: FakeTopic, root: str
) -> None:
    run(broker, root, "2023-11-14T22:13:20.500Z", "2023-11-14T23:13:22+01:00")
    assert offsets(root) == [(p, n) for p in range(2) for n in range(10, 20)]


def test_nothing_is_read_of_a_partition_whose_last_record_is_older(
    broker: FakeBroker, topic: FakeTopic, root: str
) -> None:
    topic.partitions[0].append([(None, b"v")], timestamp_ms=1_800_000_000_000)
    run(broker, root, "2024-01-01T00:00:00Z", "latest")
    assert offsets(root) == [(0, 30)]
    with pytest.raises(OptionError, match="nothing between --from and --to"):
        run(broker, f"{root}-2", "2030-01-01T00:00:00Z", "latest")


@pytest.mark.parametrize("early", ["1960-01-01T00:00:00Z", "1971-01-01T00:00:00Z"])
def test_a_time_long_ago_is_one_as_any_other(
    broker: FakeBroker, topic: FakeTopic, root: str, early: str
) -> None:
    topic.partitions[0].batches.clear()
    topic.partitions[0].append([(None, b"v")], timestamp_ms=1_000_000)
    topic.partitions[0].append([(None, b"v")], timestamp_ms=50_000_000_000)
    run(broker, root, early, "1972-01-01T00:00:00Z")
    assert offsets(root) == [(0, 0)] * early.startswith("1960") + [(0, 1)]


def test_a_table_that_holds_anything_is_refused(
    broker: FakeBroker, topic: FakeTopic, root: str
) -> None:
    run(broker, root, "earliest", "latest")
    with pytest.raises(TableError, match=r"holds records already; .* give a new path"):
        run(broker, root, "earliest", "latest")
    assert len(offsets(root)) == 60


def test_a_replay_that_fails_leaves_an_empty_table_that_takes_the_next(
    broker: FakeBroker, topic: FakeTopic, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    def failing(*arguments: object) -> dict[str, object]:
        if arguments[1].tp.partition == 1:  # type: ignore[attr-defined]
            raise OSError("no space left")
        return write_range(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(replay_module, "write_range", failing)
    with pytest.raises(TableError, match=r"stays empty, .* no space left"):
        run(broker, root, "earliest", "latest")
    assert (offsets(root), [name for _, _, names in os.walk(root) for name in names]) == (
        [],
        [f"{0:020}.json"],
    )
    monkeypatch.setattr(replay_module, "write_range", write_range)
    assert run(broker, root, "earliest", "latest").rows == 60


def test_what_cannot_be_read_is_said_with_the_way_out(
    broker: FakeBroker, topic: FakeTopic, root: str
) -> None:
    topic.partitions[0].log_start = 10
    with pytest.raises(DataLoss, match=r"t:0 \[5, 10\) by retention .* Give a later --from"):
        run(broker, root, '{"t": {"0": 5, "1": 0}}', "latest")
    with pytest.raises(OptionError, match="nothing between --from and --to"):
        run(broker, root, '{"t": {"0": 12, "1": 3}}', '{"t": {"0": 12, "1": 3}}')
    assert not os.path.exists(root)
    file = f"{root}-file"
    open(file, "wb").close()
    with pytest.raises(TableError, match=f"{file} exists and is no Delta table; give an empty"):
        run(broker, file, '{"t": {"0": 10, "1": 0}}', "latest")
    for start in ("soon", "2026-01-31T12:00:00", ""):
        with pytest.raises(OptionError, match=r"--from .* a time with its zone"):
            options_of("h:1", "t", start, "latest")
    for start, end in (("latest", "latest"), ("earliest", "earliest")):
        with pytest.raises(OptionError, match="there is nothing between"):
            options_of("h:1", "t", start, end)
    for topics in ("t,u", ""):
        with pytest.raises(OptionError, match="is not one topic"):
            options_of("h:1", topics, "earliest", "latest")


def test_the_command_says_what_it_did(
    broker: FakeBroker, topic: FakeTopic, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def status(*more: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(["replay", "t", "--bootstrap", broker.address, "--table", root, *more])
        return ended.value.code

    assert status("--from", "latest") == 1
    assert capsys.readouterr().err.startswith("error: ")
    more = '{"t": {"0": 40, "1": 0}}'
    for start, end, said in (
        ("{", "latest", "--from: '{' is not earliest"),
        ("earliest", '{"t": {"0": 0}}', "--to must name every partition"),
        ("earliest", more, "--to: t:0 has records up to 30 only, not to 40"),
        (more, "latest", "t:0 would be read from 40 (--from) to 30 (--to): the end is before"),
        ("2023-11-14T22:13:22Z", "2023-11-14T22:13:21Z", "from 20 (--from) to 10 (--to): the end"),
    ):
        assert status("--from", start, "--to", end) == 1
        told = capsys.readouterr().err
        assert said in told
        assert not re.search("starting|ending", told)
    assert status("--from", "earliest", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["files"], document["version"]) == (60, 2, 1)
    assert status("--from", "earliest") == 1
    assert "holds records already" in capsys.readouterr().err
