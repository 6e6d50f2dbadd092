"""Records that end the process that parses them: found in few children, named, or in quarantine."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_spark.commands.main import main
from strandline_spark.errors import TableError
from strandline_spark.parsing.parser import make_parser
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.failures import StepsFailed
from strandline_spark.silver import crash_guard
from strandline_spark.silver.crash_guard import FOUND_MAX, Guarded
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from strandline_spark.parsing.settings import ParseSettings
    from support.fake_broker_sync import FakeBroker

CRASHES: Final = str(Path(__file__).parent.parent / "support" / "crashes")
PIPELINE: Final = """
[pipeline]
name = "crashes"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"
parse_deadline = "DEADLINE"
on_crash = "CRASH"

[silver.columns]
n = "bigint"
"""


def text(on_crash: str, deadline: str = "2 minutes") -> str:
    return PIPELINE.replace("CRASH", on_crash).replace("DEADLINE", deadline)


def settings(on_crash: str = "quarantine") -> ParseSettings:
    return parse_pipeline(text(on_crash), "/p/pipeline.toml").parse


def records(values: Sequence[bytes | None]) -> Any:
    """At offsets from 1000 on."""
    many = len(values)
    return pa.record_batch(
        {
            "partition": pa.array([3] * many, pa.int32()),
            "offset": pa.array(range(1000, 1000 + many), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000_000] * many, pa.timestamp("us", "UTC")),
            "key": pa.array([b"k"] * many, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the children, and not of this process."""
    monkeypatch.syspath_prepend(CRASHES)


def good(n: int) -> bytes:
    return b'{"n": %d}' % n


@pytest.mark.usefixtures("crashing")
@pytest.mark.parametrize(
    "place", [17, *(pytest.param(each, marks=pytest.mark.proof) for each in (0, 39))]
)
def test_a_record_is_found_in_a_few_children_and_the_others_parse_as_ever(place: int) -> None:
    values: list[bytes | None] = [good(n) for n in range(40)]
    values[7], values[8], values[place] = None, b"{", b"SEGV"
    guarded = Guarded(settings(), make_parser(settings()), "t")
    parsed = guarded.parse(records(values))
    assert guarded.children <= math.ceil(math.log2(40)) + 2
    bad = dict(
        zip(
            parsed.bad_rows.to_pylist(),
            zip(parsed.reasons, parsed.details, strict=True),
            strict=True,
        )
    )
    assert bad.pop(place) == ("ends the parser", "SIGSEGV")
    assert bad == {8: ("not JSON", bad[8][1])}
    assert parsed.tombstone_rows.to_pylist() == [7]
    rows = parsed.good_rows.to_pylist()
    assert rows == [n for n in range(40) if n not in (7, 8, place)]
    assert parsed.good.column("n").to_pylist() == rows
    # The next batch has a child that lives.
    children = guarded.children
    whole = guarded.parse(records([good(n) for n in range(40)]))
    assert whole.good.num_rows == 40
    assert guarded.children <= children + 1


@pytest.mark.usefixtures("crashing")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"SEGV", "SIGSEGV"),
        (b"EXIT", "exit status 3"),
        (b"RAISE", "RuntimeError: a fault of the parser"),
        (b"HANG", "no end in time"),
    ],
)
def test_each_way_to_end_is_told_and_a_record_alone_is_found_too(value: bytes, why: str) -> None:
    short = replace(settings(), deadline_seconds=2)
    parsed = Guarded(short, make_parser(short), "t").parse(records([value]))
    assert (parsed.bad_rows.to_pylist(), parsed.details) == ([0], [why])
    assert parsed.good.num_rows == 0


@pytest.mark.usefixtures("crashing")
def test_a_record_is_named_with_the_setting_where_it_stops_silver() -> None:
    stops = settings("stop")
    with pytest.raises(TableError) as refused:
        Guarded(stops, make_parser(stops), "t").parse(records([good(1), good(2), b"SEGV"]))
    assert str(refused.value).startswith(
        "the record at t:3 offset 1002 ends the process that parses it (SIGSEGV): say on_crash ="
        ' "quarantine" in [silver]'
    )


@pytest.mark.usefixtures("crashing")
def test_more_than_a_few_of_them_are_no_matter_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOUND_MAX == 20
    monkeypatch.setattr(crash_guard, "FOUND_MAX", 2)
    guarded = Guarded(settings(), make_parser(settings()), "t")
    assert guarded.parse(records([b"EXIT"] * 2)).bad_rows.to_pylist() == [0, 1]
    with pytest.raises(TableError, match=r"more than 2 records of one batch end .* offset 1000 "):
        guarded.parse(records([b"EXIT"] * 3))


def keep_crashing(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session starts other workers for the next tasks, which have the parser that crashes."""
    monkeypatch.setitem(session.sparkContext.environment, "PYTHONPATH", CRASHES)


def verify(folder: Path, bootstrap: str) -> int:
    file = str(folder / "pipeline.toml")
    with pytest.raises(SystemExit) as ended:
        main(["verify", file, "--complete", "--values", "--bootstrap", bootstrap])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.spark
@pytest.mark.usefixtures("crashing")
def test_a_pipeline_names_the_record_and_by_the_setting_keeps_it_in_quarantine(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also a record that is never parsed: after the deadline its worker ends."""
    keep_crashing(spark, monkeypatch)
    partition = broker.create("t").partitions[0]
    partition.append([(b"k", one) for one in (good(0), good(1), b"SEGV", good(3))])
    stops = of_file(text("stop"), tmp_path)
    with pytest.raises(StepsFailed) as failed:
        run_pipeline_once(spark, stops, broker.address)
    assert "the record at t:0 offset 2 ends the process that parses it (SIGSEGV)" in str(
        failed.value
    )
    # Bronze goes on.
    assert len(rows_of(stops.bronze, "offset")) == 4
    assert rows_of(stops.silver, "offset") == []

    partition.append([(b"k", good(4)), (b"k", b"HANG")])
    # A part of a batch has its share of these seconds.
    keeps = text("quarantine", "10 seconds")
    (tmp_path / "pipeline.toml").write_text(keeps)
    run_pipeline_once(spark, of_file(keeps, tmp_path), broker.address)
    kept = rows_of(stops.quarantine, "offset", "value", "reason")
    assert kept == [(2, b"SEGV", "ends the parser"), (5, b"HANG", "ends the parser")]
    assert rows_of(stops.silver, "offset", "n") == [(n, n) for n in (0, 1, 3, 4)]
    assert verify(tmp_path, broker.address) == 0, capsys.readouterr().err
