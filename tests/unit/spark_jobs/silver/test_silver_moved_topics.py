"""A topic that moved from one silver table to another: `verify` names it until the rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.catch_up import CatchUp
from strandline_spark.silver.rebuild import Rebuild
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from support.bronze_values import InlineSpark, Record, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.config import Pipeline

FILE = """
[pipeline]
name = "p"
topics = ["t", "u", "v"]

[[silver]]
name = "first"
topics = {}
format = "json"
event_time = "timestamp"
[silver.columns]
n = "int"

[[silver]]
name = "second"
topics = {}
format = "json"
event_time = "timestamp"
[silver.columns]
n = "int"
"""


def settings_of(part: Pipeline) -> Callable[[SilverTable], ParseSettings]:
    return lambda _: part.parse


def level(pipeline: Pipeline) -> None:
    spark: Any = InlineSpark()
    for part in pipeline.parts:
        SilverTable.open_or_create(part.silver, part.parse.columns, "p")
        QuarantineTable.open_or_create(part.quarantine, "p")
        catch_up = CatchUp(spark, part, settings_of(part), lambda _: None)
        while catch_up.is_behind():
            catch_up.step()


def test_verify_names_a_topic_that_another_table_takes_now(tmp_path: Path) -> None:
    file = str(tmp_path / "pipeline.toml")
    before = parse_pipeline(FILE.format(["t", "u"], ["v"]), file)
    records = [Record(0, 0, b'{"n": 1}', topic=topic) for topic in ("t", "u", "v")]
    bad = Record(0, 1, b"no json", topic="u")
    take(before.bronze, 0, [*records, bad])
    level(before)
    assert all(one.sound for one in verify_parsed(before, values=True))

    now = parse_pipeline(FILE.format(["t"], ["u", "v"]), file)
    level(now)
    first = now.parts[0]
    findings = verify_parsed(now, values=True)
    problems = [(one.topic, one.problems) for one in findings if not one.sound]
    assert problems == [
        ("u", [f"{path} has its records, and [[silver]] second takes it"])
        for path in (first.silver, first.quarantine)
    ]

    spark: Any = InlineSpark()
    Rebuild(first, lambda _: None).run(spark)
    assert all(one.sound for one in verify_parsed(now, values=True))
