"""A pipeline with state steps on the shared session: deletes, restarts, conflicts and rebuilds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from strandline_spark.commands.main import main
from strandline_spark.pipeline.failures import Failures, StepsFailed
from strandline_spark.pipeline.metrics import JobMetrics
from strandline_spark.pipeline.state import StateSteps
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.rebuild import Rebuild, running
from strandline_spark.state.table import StateTable
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

ORDERS: Final = """
[pipeline]
name = "orders"
topics = ["t"]

[bronze]
max_offsets_per_trigger = 4

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
id = "bigint"
op = "string"
amount = "decimal(10,2)"

[[state]]
name = "records"

[[state]]
name = "orders"
key = ["id"]
order = ["event_time"]
delete_when = "op = 'd'"
"""
_AT_MS: Final = 1_700_000_000_000
Change = tuple[int, str | None, str]
"""Order, operation (None: a tombstone) and amount."""


def fill(topic: FakeTopic, *changes: Change) -> None:
    """Each order has its partition; each change is a second after the one before."""
    for number, op, amount in changes:
        partition = topic.partitions[number % len(topic.partitions)]
        value = None
        if op is not None:
            value = json.dumps({"id": number, "op": op, "amount": amount}).encode()
        at = _AT_MS + 1000 * sum(one.log_end for one in topic.partitions)
        partition.append([(b"o%d" % number, value)], timestamp_ms=at)


def latest(changes: list[Change], *, by_record: bool) -> dict[int, str]:
    """The amount of each order that is there, by a plain loop: a record's key is deleted by a
    tombstone, an order by its operation.
    """
    held: dict[int, str] = {}
    for number, op, amount in changes:
        if op is None:
            if by_record:
                held.pop(number, None)
        elif op == "d" and not by_record:
            held.pop(number, None)
        else:
            held[number] = amount
    return held


def check(pipeline: Pipeline, changes: list[Change]) -> None:
    assert all(one.sound for one in verify_parsed(pipeline))
    for step in pipeline.state:
        rows = rows_of(step.table, "id", "amount")
        held = {number: str(amount) for number, amount in rows}
        assert len(held) == len(rows)
        assert held == latest(changes, by_record=step.name == "records"), step.name


FIRST: Final[list[Change]] = [
    *((n, "c", f"{n}.50") for n in range(6)),
    *((1, "u", "7.00"), (2, "d", "0.00"), (3, None, ""), (4, "d", "0.00"), (4, "c", "9.25")),
]
SECOND: Final[list[Change]] = [(0, "d", "0.00"), (0, None, ""), (2, "c", "2.75"), (5, None, "")]


def test_state_has_the_latest_row_of_each_key_after_restarts(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = broker.create("t", 2)
    file = tmp_path / "pipeline.toml"
    file.write_text(ORDERS)
    pipeline = of_file(ORDERS, tmp_path)
    metrics = JobMetrics("orders")
    notes: list[str] = []
    fill(topic, *FIRST)
    run_pipeline_once(spark, pipeline, broker.address, metrics=metrics, note=notes.append)
    check(pipeline, FIRST)
    assert "state orders: 1 rows are left out, because id is null in them" in notes
    fill(topic, *SECOND)
    run_pipeline_once(spark, pipeline, broker.address, metrics=metrics)
    check(pipeline, [*FIRST, *SECOND])

    def shown(name: str, **labels: str) -> float | None:
        labels |= {"pipeline": "orders"}
        return metrics.registry.get_sample_value(f"strandline_spark_{name}", labels)

    assert shown("state_keys", step="records") == len(latest([*FIRST, *SECOND], by_record=True))
    assert shown("state_left_out_rows_total", step="orders", column="id") == 3
    assert shown("step_failed", step="state orders") == 0
    versions = [DeltaTable(step.table).version() for step in pipeline.state]
    run_pipeline_once(spark, pipeline, broker.address)
    assert [DeltaTable(step.table).version() for step in pipeline.state] == versions

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRANDLINE_BOOTSTRAP", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert (ended.value.code, lines[-1]) == (0, "sound: bronze, silver and state")
    DeltaTable(pipeline.state[0].table).delete("id = 1")
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(file), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (ended.value.code, found["sound"]) == (1, False)
    assert [one["sound"] for one in found["state"]] == [False, True]


def test_a_foreign_writer_stops_the_step_and_bronze_goes_on(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create("t", 2)
    pipeline = of_file(ORDERS, tmp_path)
    fill(topic, *FIRST)
    commit = StateTable.commit

    def late(own: StateTable, *given: Any) -> int:
        if own.path == pipeline.state[0].table:
            foreign = DeltaTable(own.path)
            foreign.alter.set_table_properties({"delta.checkpointInterval": "30"})
        return commit(own, *given)

    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "commit", late)
        with pytest.raises(StepsFailed, match=r"^state records: another writer changed .*MERGE"):
            run_pipeline_once(spark, pipeline, broker.address)
    assert len(rows_of(pipeline.bronze, "offset")) == len(FIRST)
    assert rows_of(pipeline.state[0].table, "id") == []
    run_pipeline_once(spark, pipeline, broker.address)
    check(pipeline, FIRST)


def test_a_rebuild_of_silver_begins_the_state_again(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    fill(topic, *FIRST)
    run_pipeline_once(spark, of_file(ORDERS, tmp_path), broker.address)
    wider = of_file(ORDERS.replace("decimal(10,2)", "decimal(12,2)"), tmp_path)
    failures = Failures(print)
    with running(wider, alone=True):
        Rebuild(wider, print).run(spark)
        StateSteps(wider, print, failures).run()
    assert failures.said() == {}
    check(wider, FIRST)
    kept = [one.name.partition(".")[0] for one in Path(wider.state[0].table).parent.iterdir()]
    assert sorted(kept) == ["orders", "orders", "records", "records"]
