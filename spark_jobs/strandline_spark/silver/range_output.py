"""A task's part in silver: it parses each batch of records into silver's file or quarantine's."""

from __future__ import annotations

import contextlib
import json
import platform
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.range_file import RangeFile
from strandline_spark.errors import first_line
from strandline_spark.parsing.inference import merge_fields
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.settings import POSITION, ParseSettings
from strandline_spark.silver.crash_guard import parser_for
from strandline_spark.silver.duplicates import REASON
from strandline_spark.silver.tables import QUARANTINE_FILE_SCHEMA, silver_file_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from strandline_spark.silver.duplicates import Seen

_T = TypeVar("_T")
_TIMES: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_MORE: Final = (
    *("zone", "field", "source", "any_kind", "trim", "required", "default", "null_values"),
)
"""What a column has beside name, type and format."""
_QUARANTINE_OPTIONS: Final[dict[str, Any]] = {
    "compression": "snappy",
    "use_dictionary": ["partition", "reason", "batch_id"],
    "column_encoding": _TIMES,
    "write_statistics": ["partition", "offset", "timestamp", "reason"],
}


@dataclass(frozen=True, slots=True)
class SilverPlan:
    """The tasks' settings for silver, as text between driver and tasks."""

    silver: str
    quarantine: str
    """Folders of the two tables."""
    parse: ParseSettings

    def to_json(self) -> str:
        parse = self.parse
        columns = [
            (name, one.name, one.format, {key: getattr(one, key) for key in _MORE})
            for name, one in parse.columns.items()
        ]
        plain = {name: getattr(parse, name) for name in ParseSettings.__slots__}
        return json.dumps(
            {
                "silver": self.silver,
                "quarantine": self.quarantine,
                "parse": plain | {"columns": columns},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> SilverPlan:
        found = json.loads(text)
        parse = found["parse"]
        columns = {
            name: replace(
                column_type(kind, form), **more | {"null_values": tuple(more["null_values"])}
            )
            for name, kind, form, more in parse["columns"]
        }
        lists = {name: tuple(parse[name]) for name in ("null_values", "dedupe_key")}
        settings = ParseSettings(**parse | {"columns": columns} | lists)
        return cls(found["silver"], found["quarantine"], settings)


@dataclass(frozen=True, slots=True)
class SilverPlans:
    """The plans of a pipeline's silver tables, as text between driver and tasks."""

    by_topics: Sequence[tuple[Collection[str] | None, str]]
    """Topics of each table, None for all, with its plan as text."""

    def to_json(self) -> str:
        return json.dumps([[t if t is None else list(t), plan] for t, plan in self.by_topics])

    @classmethod
    def from_json(cls, text: str) -> SilverPlans:
        return cls([(topics, plan) for topics, plan in json.loads(text)])

    def of(self, topic: str) -> SilverPlan | None:
        """Returns the plan of the topic's table; None if there is none."""
        for topics, plan in self.by_topics:
            if topics is None or topic in topics:
                return SilverPlan.from_json(plan)
        return None


@dataclass(slots=True)
class SilverManifest:
    """The result of one range, for silver and quarantine."""

    silver: dict[str, Any]
    """`RangeFile.description`."""
    quarantine: dict[str, Any]
    records: int = 0
    """Records in silver, each of which has one row, or one for each exploded element."""
    unseen: list[str] | None = None
    """Columns whose field no record has; None without a record that parses."""
    reasons: dict[str, int] = field(default_factory=dict)
    sample: str | None = None
    """A record that did not parse, and the reason."""
    new_fields: dict[str, str] = field(default_factory=dict)
    """New fields as in `Parsed`, from records that parse."""
    left_out: list[str] = field(default_factory=list)
    """Fields within objects that no column reads, as in `Parsed`."""
    failed: str | None = None
    """Reason why the task could not parse the range or write its files; then the other fields mean
    nothing.
    """

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> SilverManifest:
        return cls(**json.loads(text))

    @classmethod
    def of_failure(cls, why: Exception | None) -> SilverManifest:
        assert why is not None
        text = f"{type(why).__name__} on {platform.node()}: {first_line(why)}"
        return cls({}, {}, failed=text)


class SilverRows:
    """The rows of a batch of records for silver and quarantine."""

    def __init__(self, parse: ParseSettings, batch_id: int, topic: str) -> None:
        self.parser = parser_for(parse, topic)
        self.schema = silver_file_schema(parse.columns)
        self._batch_id = batch_id
        self._is_exploded = parse.explode is not None
        self._order = ["offset", *(n for n, one in parse.columns.items() if one.source == POSITION)]

    def of(self, batch: Any) -> tuple[Any, Any]:
        """Returns the rows of silver and those of quarantine."""
        parsed = self.parser.parse(batch)
        return self.judged(batch, parsed)

    def judged(self, batch: Any, parsed: Any, seen: Seen | None = None) -> tuple[Any, Any]:
        """Returns the rows of silver and those of quarantine. With `seen`, what came before the
        batch, duplicates are among the latter.
        """
        rows = self.silver(batch, parsed)
        bad = _Bad(parsed.bad_rows.to_pylist(), parsed.reasons, parsed.details)
        if seen is not None:
            repeated = seen.take(rows)
            if repeated.rows:
                offsets = rows.column("offset").take(pa.array(repeated.rows))
                kept = np.ones(rows.num_rows, dtype=bool)
                kept[repeated.rows] = False
                rows = rows.filter(pa.array(kept))
                places = pc.index_in(offsets, value_set=batch.column("offset")).to_pylist()
                bad = bad.beside(places, repeated.offsets)
        return rows, self.quarantine(batch, bad)

    def silver(self, batch: Any, parsed: Any) -> Any:
        good, tombstones = parsed.good, parsed.tombstone_rows
        rows, is_tombstone = parsed.good_rows, pa.repeat(pa.scalar(False), good.num_rows)
        columns = {name: good.column(name) for name in good.schema.names}
        if len(tombstones) > 0:
            rows = pa.concat_arrays([rows, tombstones])
            order = pc.sort_indices(rows)
            rows = rows.take(order)
            is_tombstone = pc.greater_equal(order, good.num_rows)
            columns = {
                name: pa.concat_arrays([one, parsed.tombstones.column(name)]).take(order)
                for name, one in columns.items()
            }
        if self._is_exploded or len(rows) < batch.num_rows:
            batch = batch.select(["partition", "offset", "timestamp", "key"]).take(rows)
        own = {
            "partition": batch.column("partition"),
            "offset": batch.column("offset"),
            "timestamp": batch.column("timestamp"),
            "event_time": columns["event_time"],
            "key": batch.column("key"),
            "tombstone": is_tombstone,
            "batch_id": self._batch_ids(len(rows)),
        }
        arrays = [own[name] if name in own else columns[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def merged(self, rows: Any, kept: Any) -> Any:
        """Returns both, by offset. A column that `kept` lacks is null there."""
        columns = [
            kept.column(field.name).cast(field.type)
            if field.name in kept.column_names
            else pa.nulls(kept.num_rows, field.type)
            for field in self.schema
        ]
        both = pa.concat_tables(
            [pa.Table.from_batches([rows]), pa.table(columns, schema=self.schema)]
        )
        order = [(name, "ascending") for name in self._order]
        return both.sort_by(order).combine_chunks().to_batches()[0] if both.num_rows else rows

    def quarantine(self, batch: Any, bad: _Bad) -> Any:
        names = ["partition", "offset", "timestamp", "key", "value"]
        rows = batch.select(names).take(pa.array(bad.places, pa.int64()))
        arrays = [
            *(rows.column(name) for name in names),
            pa.array(bad.reasons, pa.string()),
            pa.array(bad.details, pa.string()),
            self._batch_ids(rows.num_rows),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_FILE_SCHEMA)

    def _batch_ids(self, rows: int) -> Any:
        return pa.repeat(pa.scalar(self._batch_id, pa.int64()), rows)


@dataclass(frozen=True, slots=True)
class _Bad:
    """The records of a batch that go to quarantine, by their places in it."""

    places: list[int]
    reasons: list[str]
    details: list[str]

    def beside(self, places: list[int], repeated: list[int]) -> _Bad:
        """Returns these and duplicates, in the order of their places; `repeated` are the offsets
        that they repeat.
        """
        more = (
            (place, REASON, f"it repeats the row at offset {offset}")
            for place, offset in zip(places, repeated, strict=True)
        )
        own = zip(self.places, self.reasons, self.details, strict=True)
        columns = zip(*sorted([*own, *more]), strict=True)
        return _Bad(*map(list, columns))


class SilverOutput:
    """The two files of one range."""

    def __init__(
        self, plan: SilverPlan, path: str, batch_id: int, seen: Seen | None = None
    ) -> None:
        """Prepares the files. `path` is their path below each table's folder, `topic=NAME/…`.
        `seen` is what the range may repeat, if duplicates are told apart.
        """
        self._seen = seen
        topic = path.partition("/")[0].removeprefix("topic=")
        self._rows = SilverRows(plan.parse, batch_id, topic)
        schema = self._rows.schema
        self._silver = RangeFile(plan.silver, path, schema, silver_options(schema))
        self._quarantine = RangeFile(
            plan.quarantine, path, QUARANTINE_FILE_SCHEMA, _QUARANTINE_OPTIONS
        )
        self._reasons: Counter[str] = Counter()
        self._sample: str | None = None
        self._new_fields: dict[str, str] = {}
        self._left_out: set[str] = set()
        self._records = 0
        self._unseen = [n for n, one in plan.parse.columns.items() if one.field is not None]
        self._has_values = False

    def add(self, batch: Any, kept: Any = None, elsewhere: Any = None) -> None:
        """Adds records as the source reads them. `kept` is an Arrow table of silver's rows between
        them, which are taken unchanged. Records with the offsets `elsewhere` are judged and left
        out.
        """
        parsed = self._rows.parser.parse(batch)
        merge_fields(self._new_fields, parsed.new_fields)
        self._left_out |= parsed.left_out
        self._unseen = [name for name in self._unseen if name not in parsed.seen]
        self._has_values |= len(parsed.good_rows) > 0
        rows, bad = self._rows.judged(batch, parsed, self._seen)
        rows = rows if kept is None else self._rows.merged(rows, kept)
        if elsewhere is not None:
            rows, bad = (without(one, elsewhere) for one in (rows, bad))
        self._silver.add(rows)
        self._records += pc.count_distinct(rows.column("offset")).as_py()
        if bad.num_rows > 0:
            self._quarantine.add(bad)
            reasons = bad.column("reason").to_pylist()
            self._reasons.update(reasons)
            first = next((n for n, reason in enumerate(reasons) if reason != REASON), None)
            if self._sample is None and first is not None:
                offset, detail = bad.column("offset")[first], bad.column("detail")[first]
                self._sample = f"offset {offset}: {detail}"

    def close(self) -> SilverManifest:
        silver, quarantine = (
            one.description(one.close()) for one in (self._silver, self._quarantine)
        )
        return SilverManifest(
            silver,
            quarantine,
            self._records,
            self._unseen if self._has_values else None,
            dict(self._reasons),
            self._sample,
            self._new_fields,
            sorted(self._left_out),
        )

    def discard(self) -> None:
        self._silver.discard()
        self._quarantine.discard()


class GuardedOutput:
    """A `SilverOutput` whose failure is part of the manifest: bronze continues without it."""

    def __init__(self, plan: SilverPlan, path: str, batch_id: int) -> None:
        self._failed: Exception | None = None
        self._output: SilverOutput | None = None
        self._guarded(lambda: self._begin(SilverOutput(plan, path, batch_id)))

    def _begin(self, output: SilverOutput) -> None:
        self._output = output

    def add(self, batch: Any) -> None:
        output = self._output
        if output is not None:
            self._guarded(lambda: output.add(batch))

    def close(self) -> SilverManifest:
        found = None if self._output is None else self._guarded(self._output.close)
        return found if found is not None else SilverManifest.of_failure(self._failed)

    def discard(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            with contextlib.suppress(Exception):
                output.discard()

    def _guarded(self, act: Callable[[], _T]) -> _T | None:
        try:
            return act()
        except Exception as why:  # noqa: BLE001 - bronze goes on, whatever failed
            self._failed = why
            self.discard()
            return None


def without(batch: Any, offsets: Any) -> Any:
    """Returns the rows with other offsets."""
    return batch.filter(pa.array(~np.isin(batch.column("offset").to_numpy(), offsets)))


def silver_options(schema: Any) -> dict[str, Any]:
    """Returns ParquetWriter's options for a file of silver."""
    # Times and offsets rise; values of other columns may well repeat.
    times = {f.name for f in schema if pa.types.is_timestamp(f.type)} | {"offset"}
    return {
        "compression": "snappy",
        "use_dictionary": [name for name in schema.names if name not in times | {"key"}],
        "column_encoding": dict.fromkeys(times, "DELTA_BINARY_PACKED"),
        "write_statistics": [name for name in schema.names if name != "key"],
    }
