"""A pipeline whose silver table has no duplicates, and its tables, made without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.silver.catch_up import CatchUp
from strandline_spark.silver.tables import QuarantineTable, SilverTable, settings_of
from support.bronze_values import InlineSpark, Record

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_spark.pipeline.config import Pipeline

WITHIN: Final = 10
"""Seconds."""
FILE: Final = """
[pipeline]
name = "p"
topics = ["t"]

[silver]
format = "json"
event_time = "at"
max_ahead = "unlimited"
quarantine_limit = 3
dedupe = { key = ["id", "kind"], within = "10 seconds" }

[silver.columns]
id = "bigint"
kind = "string"
n = "int"
at = { type = "timestamp", format = "epoch_s" }
"""


def pipeline_in(folder: Path, text: str = FILE) -> Pipeline:
    return parse_pipeline(text, str(folder / "pipeline.toml"))


def record(partition: int, offset: int, id_: int | None, at: int, n: int = 0) -> Record:
    value = json.dumps({"id": id_, "kind": "a", "at": at, "n": n})
    return Record(partition, offset, value.encode())


def make(pipeline: Pipeline) -> None:
    parse = pipeline.parse
    SilverTable.open_or_create(pipeline.silver, parse.columns, "p", settings_of(parse))
    QuarantineTable.open_or_create(pipeline.quarantine, "p")


def level(pipeline: Pipeline, notes: list[str] | None = None, steps: int = 1000) -> int:
    """Lets silver catch up, and returns the number of duplicates."""
    spark: Any = InlineSpark()
    noted = [] if notes is None else notes
    catch_up = CatchUp(spark, pipeline, lambda _: pipeline.parse, noted.append)
    found = 0
    while steps and catch_up.is_behind():
        found += catch_up.step().duplicates
        steps -= 1
    return found
