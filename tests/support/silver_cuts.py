"""The tables of a pipeline without Spark: records are cut into micro-batches, parsed as tasks do
it, and judged and committed by the driver's own code.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.columns import FILE_SCHEMA, WRITER_OPTIONS, BronzeTable
from strandline_spark.bronze.manifests import BatchRange, accounts_of
from strandline_spark.bronze.range_file import RangeFile
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.pipeline.columns import with_columns_of
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.silver.judge import Judge, ParsedRange, taken
from strandline_spark.silver.range_output import SilverManifest, SilverOutput, SilverPlan
from strandline_spark.silver.tables import QuarantineTable, SilverTable, settings_of
from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from strandline_spark.parsing.settings import ParseSettings

_TOPIC: Final = "t"
_FIRST_US: Final = 1_700_000_000_000_000
_TRIES: Final = 10
"""A field's type has fewer steps than this."""
Record = tuple[str | None, bytes | None, Any]
"""Value, key and headers."""
TEXT: Final = """
[pipeline]
name = "cuts"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"
on_new_field = "{mode}"
{more}

[silver.columns]
n = "int"
"""


class Cuts:
    """One pipeline in a folder of its own."""

    def __init__(
        self, folder: Path, mode: str = "add", columns: str = "", explode: str | None = None
    ) -> None:
        more = "" if explode is None else f'explode = "{explode}"'
        text = TEXT.format(mode=mode, more=more) + columns
        self.pipeline = parse_pipeline(text, str(folder / "pipeline.toml"))
        self._batch = 0
        self._ends: dict[int, int] = {}
        self.added: list[dict[str, str]] = []
        self.notes: list[str] = []
        """Notes on the last micro-batch."""
        BronzeTable.open_or_create(self.pipeline.bronze, "cuts")
        QuarantineTable.open_or_create(self.pipeline.quarantine, "cuts")
        parse = self.pipeline.parse
        SilverTable.open_or_create(self.pipeline.silver, parse.columns, "cuts", settings_of(parse))

    def take(self, *values: str | Record, partition: int = 0) -> None:
        """A micro-batch of these records: values, or values with keys and headers."""
        start = self._ends.get(partition, 0)
        stop = start + len(values)
        tp = TopicPartition(_TOPIC, partition)
        for _ in range(_TRIES):
            known = with_columns_of(self.pipeline, SilverTable.open(self.pipeline.silver)).parse
            row = self._written(known, values, partition, start)
            ranges = [BatchRange(tp, start, stop, bytes(16), 0)]
            accounts, files = accounts_of([row], ranges)
            manifest = SilverManifest.from_json(row.silver)
            parsed = [ParsedRange(accounts[0], row.ingest_date, row.host, manifest)]
            judge = Judge(self.pipeline)
            if added := judge.new_columns(parsed, known.columns):
                self.added.append(added)
                continue
            judge.check_limit(parsed)
            self.notes = list(judge.paths_to_nothing(parsed))
            pipeline = self.pipeline
            BronzeTable.open(pipeline.bronze).commit("job", self._batch, accounts, files)
            for table in (
                SilverTable.open(pipeline.silver),
                QuarantineTable.open(pipeline.quarantine),
            ):
                part = taken(parsed, table.KIND)
                table.commit("job", self._batch, part.accounts, part.files)
            self._batch += 1
            self._ends[partition] = stop
            return
        raise AssertionError(f"the columns of {values} never come to rest")

    def _written(
        self, known: ParseSettings, values: Sequence[str | Record], partition: int, start: int
    ) -> Any:
        pipeline = self.pipeline
        plan = SilverPlan(pipeline.silver, pipeline.quarantine, known)
        name = f"{partition}-{start}-{os.urandom(4).hex()}.parquet"
        path = f"topic={_TOPIC}/ingest_date=2024-01-01/{name}"
        rows = _records(values, partition, start)
        bronze = RangeFile(pipeline.bronze, path, FILE_SCHEMA, WRITER_OPTIONS)
        bronze.add(rows)
        silver = SilverOutput(SilverPlan.from_json(plan.to_json()), path, self._batch)
        silver.add(rows)
        manifest = {
            "topic": _TOPIC,
            "topic_id": topic_id_text(bytes(16)),
            "partition": partition,
            "start": start,
            "stop": start + len(values),
            "leader_epoch": 0,
            "skipped": 0,
            "lost": 0,
            "ingest_date": "2024-01-01",
            "high_watermark": None,
            "host": "",
            "silver": silver.close().to_json(),
        }
        return SimpleNamespace(**bronze.description(bronze.close()) | manifest)

    def rows(self) -> dict[tuple[int, int], dict[str, Any]]:
        """By partition and offset: what silver holds in the columns of new fields."""
        table = SilverTable.open(self.pipeline.silver)
        names = sorted(set(table.parsed_columns()) - {"n"})
        found = table.delta.to_pyarrow_table(columns=["partition", "offset", *names]).to_pylist()
        rows = {(one.pop("partition"), one.pop("offset")): one for one in found}
        assert len(rows) == len(found)
        return rows

    def types(self) -> dict[str, str]:
        columns = SilverTable.open(self.pipeline.silver).parsed_columns()
        return {name: kind for name, kind in sorted(columns.items()) if name != "n"}

    def quarantined(self) -> list[tuple[int, int, str]]:
        table = QuarantineTable.open(self.pipeline.quarantine).delta.to_pyarrow_table()
        rows = table.select(["partition", "offset", "reason"]).to_pylist()
        return sorted((one["partition"], one["offset"], one["reason"]) for one in rows)


def _records(values: Sequence[str | Record], partition: int, start: int) -> Any:
    size = len(values)
    records = [(one, None, None) if isinstance(one, str) else one for one in values]
    data = [None if value is None else value.encode() for value, _, _ in records]
    columns = {
        "partition": pa.array([partition] * size, pa.int32()),
        "offset": pa.array(range(start, start + size), pa.int64()),
        "timestamp": pa.array(range(_FIRST_US, _FIRST_US + size), TIMESTAMP_TYPE),
        "timestamp_type": pa.array([0] * size, pa.int32()),
        "key": pa.array([key for _, key, _ in records], pa.binary()),
        "value": pa.array(data, pa.binary()),
        "headers": pa.array([one for _, _, one in records], FILE_SCHEMA.field("headers").type),
        "leader_epoch": pa.array([0] * size, pa.int32()),
        "batch_id": pa.array([0] * size, pa.int64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=FILE_SCHEMA)
