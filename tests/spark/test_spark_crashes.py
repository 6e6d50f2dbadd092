"""Records that end the process that parses them: found in few children, named, or in quarantine."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_spark.errors import TableError
from strandline_spark.parsing.parser import make_parser
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.silver.crash_guard import FOUND_MAX, Guarded
from support.command import clean_environ
from support.pipelines import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.parsing.settings import ParseSettings
    from support.fake_broker_sync import FakeBroker

PROGRAM: Final = "strandline_spark.commands.main"
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
@pytest.mark.parametrize("place", [0, 136, 299])
def test_a_record_is_found_in_a_few_children_and_the_others_parse_as_ever(place: int) -> None:
    values: list[bytes | None] = [good(n) for n in range(300)]
    values[7], values[8], values[place] = None, b"{", b"SEGV"
    guarded = Guarded(settings(), make_parser(settings()), "t")
    parsed = guarded.parse(records(values))
    assert guarded.children <= math.ceil(math.log2(300)) + 2
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
    assert rows == [n for n in range(300) if n not in (7, 8, place)]
    assert parsed.good.column("n").to_pylist() == rows
    # The next batch has a child that lives.
    children = guarded.children
    whole = guarded.parse(records([good(n) for n in range(300)]))
    assert whole.good.num_rows == 300
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
        "the record at t/3 offset 1002 ends the process that parses it (SIGSEGV): say on_crash ="
        ' "quarantine" in [silver]'
    )


@pytest.mark.usefixtures("crashing")
def test_more_than_a_few_of_them_are_no_matter_of_records() -> None:
    guarded = Guarded(settings(), make_parser(settings()), "t")
    with pytest.raises(TableError, match=r"more than 20 records of one batch end .* offset 1000 "):
        guarded.parse(records([b"EXIT"] * (FOUND_MAX + 1)))


def run(folder: Path, bootstrap: str, *command: str) -> tuple[int, str]:
    """Of `strandline-spark`, whose processes all have the parser that crashes."""
    environment = clean_environ() | {"PYTHONPATH": CRASHES}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "strandline_spark.commands.main",
            *command,
            "--bootstrap",
            bootstrap,
        ],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def fill(broker: FakeBroker, value: bytes) -> None:
    values = [good(n) for n in range(200)]
    values[137] = value
    broker.create("t").partitions[0].append([(b"k", one) for one in values])


@pytest.mark.spark
def test_a_pipeline_names_the_record_and_by_the_setting_keeps_it_in_quarantine(
    broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker, b"SEGV")
    file, lake = tmp_path / "pipeline.toml", tmp_path / "lake"
    file.write_text(text("stop"))
    status, out = run(tmp_path, broker.address, "run", "pipeline.toml")
    assert status == 1
    assert "the record at t/0 offset 137 ends the process that parses it (SIGSEGV)" in out
    # Bronze goes on.
    assert len(rows_of(f"{lake}/bronze", "offset")) == 200
    assert rows_of(f"{lake}/silver", "offset") == []
    file.write_text(text("quarantine"))
    check_kept(tmp_path, broker, b"SEGV")


@pytest.mark.spark
def test_a_record_that_is_never_parsed_ends_its_worker_after_the_deadline(
    broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker, b"HANG")
    (tmp_path / "pipeline.toml").write_text(text("quarantine", "5 seconds"))
    check_kept(tmp_path, broker, b"HANG")


def check_kept(folder: Path, broker: FakeBroker, value: bytes) -> None:
    status, out = run(folder, broker.address, "run", "pipeline.toml")
    assert status == 0, out
    kept = rows_of(f"{folder}/lake/quarantine", "offset", "value", "reason")
    assert kept == [(137, value, "ends the parser")]
    parsed = rows_of(f"{folder}/lake/silver", "offset", "n")
    assert sorted(parsed) == [(n, n) for n in range(200) if n != 137]
    status, out = run(folder, broker.address, "verify", "pipeline.toml", "--complete", "--values")
    assert status == 0, out
