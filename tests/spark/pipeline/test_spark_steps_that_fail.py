"""A step of a pipeline that fails stands still by itself, and catches up after its repair."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_spark.commands.main import main
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.failures import Failures, StepsFailed
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.tables import SilverTable
from support.pipelines import commands_on, of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

SALES: Final = """
[pipeline]
name = "sales"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
amount = "int"
n = "int"

[[gold]]
name = "price"
window = "1 second"
watermark = "0 seconds"
sql = '''
SELECT window_start, window_end, max(amount / n) AS price FROM silver GROUP BY ALL
'''

[[gold]]
name = "count"
window = "1 second"
watermark = "0 seconds"
sql = '''
SELECT window_start, window_end, count(*) AS sales FROM silver GROUP BY ALL
'''
"""
_FIRST_MS: Final = 1_700_000_000_000
CORRECTED: Final = SALES.replace("amount / n", "amount / nullif(n, 0)")


def fill(topic: FakeTopic, *values: tuple[int, int]) -> None:
    """Each a second after the one before."""
    for amount, n in values:
        partition = topic.partitions[0]
        value = json.dumps({"amount": amount, "n": n}).encode()
        partition.append([(None, value)], timestamp_ms=_FIRST_MS + 1000 * partition.log_end)


def prices(pipeline: Pipeline) -> list[Any]:
    return [price for _, price in rows_of(pipeline.gold[0].table, "window_start", "price")]


def sound(spark: SparkSession, pipeline: Pipeline) -> None:
    assert all(one.sound for one in verify_parsed(pipeline))
    for step in pipeline.gold:
        found = verify_step(spark, step, pipeline.silver, pipeline=pipeline.name)
        assert found.sound, found


def reset(file: Path, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["gold", "reset", *words, str(file)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_statement_that_fails_on_a_row_stops_its_own_step_alone(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    fill(topic, (6, 3), (6, 2))
    pipeline = of_file(SALES, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert prices(pipeline) == [2.0, 3.0]
    fill(topic, (6, 0), (6, 6))
    for rows in (4, 5):
        with pytest.raises(
            StepsFailed, match=r"^gold price: .*failed on the rows of silver"
        ) as why:
            run_pipeline_once(spark, pipeline, broker.address, close=True)
        assert "gold count" not in str(why.value)
        for path in (pipeline.bronze, pipeline.silver, pipeline.gold[1].table):
            assert len(rows_of(path)) == rows, path
        fill(topic, (9, 1))
    assert prices(pipeline) == [2.0, 3.0]
    corrected = of_file(CORRECTED, tmp_path)
    file = tmp_path / "pipeline.toml"
    file.write_text(CORRECTED)
    with pytest.raises(
        StepsFailed, match=r"^gold price: .*has changed .*`strandline-spark gold reset"
    ):
        run_pipeline_once(spark, corrected, broker.address, close=True)
    assert len(rows_of(pipeline.gold[1].table)) == 6
    assert reset(file, "prize") == 1
    assert reset(file, "price") == 0
    assert reset(file, "price") == 0
    run_pipeline_once(spark, corrected, broker.address, close=True)
    assert prices(corrected) == [2.0, 3.0, None, 1.0, 9.0, 9.0]
    sound(spark, corrected)


def test_what_silver_lacks_comes_from_bronze_once_it_can(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    """A disk that lets nobody write stands for whatever stops silver for a while."""
    topic = broker.create("t", 1)
    fill(topic, (6, 3))
    pipeline = of_file(CORRECTED, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    moved = f"{pipeline.silver}/topic=t"
    os.rename(moved, f"{moved}.away")
    Path(moved).touch()
    fill(topic, (6, 2), (6, 1))
    notes: list[str] = []
    with pytest.raises(StepsFailed, match=r"^silver: "):
        run_pipeline_once(spark, pipeline, broker.address, close=True, note=notes.append)
    assert any(note.startswith("silver stands still, the other steps go on") for note in notes)
    assert len(rows_of(pipeline.bronze)) == 3
    os.unlink(moved)
    os.rename(f"{moved}.away", moved)
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert prices(pipeline) == [2.0, 3.0, 6.0]
    sound(spark, pipeline)


def test_a_new_table_beside_an_old_checkpoint_is_filled_from_bronze(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    fill(topic, *[(n, 1) for n in range(10)])
    topic.partitions[0].append([(None, b"?")])
    pipeline = of_file(SALES.partition("[[gold]]")[0], tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    assert len(rows_of(pipeline.silver)) == 10
    for rows, lost in enumerate((("silver",), ("quarantine",), ("silver", "quarantine")), 11):
        for table in lost:
            shutil.rmtree(getattr(pipeline, table))
        fill(topic, (rows, 1))
        run_pipeline_once(spark, pipeline, broker.address)
        assert len(rows_of(pipeline.silver, "amount")) == rows
        assert [reason for (reason,) in rows_of(pipeline.quarantine, "reason")] == ["not JSON"]
        assert all(one.sound for one in verify_parsed(pipeline))


def test_half_a_range_that_was_parsed_by_other_rules_is_not_completed(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    topic.partitions[0].append([(None, b'{"day": "2024-05-01"}'), (None, b'{"day": "20240502"}')])
    text = SALES.partition("[silver.columns]")[0]
    text += '[silver.columns]\nday = { type = "date", format = "%Y-%m-%d" }\n'
    pipeline = of_file(text, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    shutil.rmtree(pipeline.quarantine)
    corrected = of_file(text.replace("%Y-%m-%d", "%Y%m%d"), tmp_path)
    with pytest.raises(StepsFailed, match=r"by other rules than those of today.*rebuild silver"):
        run_pipeline_once(spark, corrected, broker.address)
    assert rows_of(pipeline.quarantine) == []


def test_a_step_that_failed_is_left_alone_for_a_while() -> None:
    notes: list[str] = []
    now = [0.0]
    failures = Failures(notes.append, lambda: now[0])
    for _ in range(2):
        with failures.guard("gold a"):
            raise StepsFailed("it is full")
    assert notes == ["gold a stands still, the other steps go on: it is full"]
    assert (failures.may_try("gold a"), failures.may_try("gold b")) == (False, True)
    now[0] = 60.0
    assert failures.may_try("gold a")
    assert failures.said() == {"gold a": "it is full"}
    with failures.guard("gold a"):
        pass
    assert (failures.said(), notes[1]) == ({}, "gold a goes on again")


def test_the_command_says_which_steps_stand_still(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker.create("t", 1), (6, 3), (6, 0))
    file = tmp_path / "pipeline.toml"
    file.write_text(SALES)
    command = ["run", str(file), "--close", "--bootstrap", broker.address, "--format", "json"]
    with commands_on(spark), pytest.raises(SystemExit) as ended:
        main(command)
    run = capsys.readouterr()
    assert ended.value.code == 1, run.err
    assert json.loads(run.out)["rows"] == 2
    (failed,) = json.loads(run.out)["failed"].items()
    assert failed[0] == "gold price"
    assert f"error: gold price stands still: {failed[1]}" in run.err
    assert SilverTable.open(str(tmp_path / "lake/silver")).delta.to_pyarrow_table().num_rows == 2
