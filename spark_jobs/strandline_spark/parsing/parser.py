"""The parser from a batch of records to good rows, bad rows and tombstones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.checks import check_settings
from strandline_spark.parsing.cleaning import Completion
from strandline_spark.parsing.decoded import Decoded, Decoder, rows_array
from strandline_spark.parsing.event_times import far_times
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.parts.explode import Explode, explode_of, parents_of, repeats
from strandline_spark.parsing.settings import BINARY, RECORD_TIME, Parsed, ParseSettings, of_value
from strandline_spark.source.schema import TIMESTAMP_TYPE

EVENT_TIME: Final = "event_time"
"""The column that each good batch has, beside or among those of the settings."""


def make_parser(settings: ParseSettings) -> Parser:
    """Returns a parser. Raises OptionError for contradictory settings."""
    check_settings(settings)
    return Parser(settings, _decoder(replace(settings, columns=of_value(settings.columns))))


def _decoder(settings: ParseSettings) -> Decoder:
    """Returns the decoder of the format for columns of the value. Each format imports only its own
    libraries.
    """
    if settings.format == "json":
        from strandline_spark.parsing.json_values import JsonDecoder

        return JsonDecoder(
            settings.columns,
            ignores_new_fields=settings.ignores_new_fields,
            explode=explode_of(settings.columns, settings.explode),
        )
    if settings.format == "csv":
        from strandline_spark.parsing.csv_lines import CsvDecoder

        return CsvDecoder(settings)
    if settings.format == "regex":
        from strandline_spark.parsing.regex_groups import RegexDecoder

        return RegexDecoder(settings)
    if settings.format == "protobuf":
        from strandline_spark.parsing.protobuf.messages import ProtobufDecoder

        return ProtobufDecoder(settings)
    from strandline_spark.parsing.avro.datums import AvroDecoder

    return AvroDecoder(settings)


class Parser:
    """The parser of one table, which keeps no state between batches."""

    def __init__(self, settings: ParseSettings, decoder: Decoder) -> None:
        self._settings = settings
        self._decoder = decoder
        self._completion = Completion(settings.columns)
        self._explode = explode_of(settings.columns, settings.explode)
        own = of_value(settings.columns)
        beside = {n: kind for n, kind in settings.columns.items() if n not in own}
        self._beside = list(beside)
        self._parts = None
        if beside:
            from strandline_spark.parsing.parts.record_parts import RecordParts

            self._parts = RecordParts(beside)
        self._completion_beside = Completion(beside)

    def parse(self, batch: Any) -> Parsed:
        """Parses a record batch with at least `value` (binary) and `timestamp` (UTC microseconds),
        of which each may be null, and `key` and `headers` if a column is read from them.
        """
        values = batch.column("value")
        dead = values.is_null().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~dead)
        live = values.drop_null() if values.null_count else values
        bad: dict[int, Fault] = {}
        if self._settings.format not in BINARY:
            live, rows = _utf8(live, rows, bad)
        beside = Decoded([], {}) if self._parts is None else self._parts.decode(batch)
        decoded = self._joined(self._decoder.decode(live), beside, rows)
        faults, new_fields = decoded.faults, decoded.new_fields
        parents = np.arange(len(rows))
        if self._explode is not None:
            decoded, parents = self._flattened(self._explode, decoded, batch, rows)
        stamps = batch.column("timestamp")
        if self._explode is not None or len(rows) < len(dead):
            stamps = stamps.take(rows_array(rows[parents]))
        of_parts = replace(decoded, faults={})
        named = zip(self._settings.columns.items(), decoded.columns, strict=True)
        seen = frozenset(
            name
            for (name, kind), column in named
            if kind.field is not None and column.null_count < len(column)
        )
        self._completion.complete(of_parts)
        times = self._event_times(of_parts, stamps)
        for place, found in sorted(of_parts.faults.items()):
            faults.setdefault(int(parents[place]), found)
        fields = new_fields(faults.keys())
        good = np.ones(len(rows), dtype=bool)
        good[list(faults)] = False
        good = good[parents]
        bad.update((int(rows[row]), found) for row, found in faults.items())
        columns, names = [*of_parts.columns, times], [*self._settings.columns, EVENT_TIME]
        if EVENT_TIME in self._settings.columns:
            columns, names = columns[:-1], names[:-1]
        table = pa.RecordBatch.from_arrays(columns, names=names)
        tombstone_rows, tombstones = self._tombstones(table.schema, beside, dead, bad)
        in_order = sorted(bad)
        return Parsed(
            good=table.filter(pa.array(good)) if faults else table,
            good_rows=rows_array(rows[parents][good]),
            bad_rows=rows_array(in_order),
            reasons=[bad[row].reason.value for row in in_order],
            details=[bad[row].detail for row in in_order],
            tombstone_rows=rows_array(tombstone_rows),
            tombstones=tombstones,
            seen=seen,
            new_fields=fields,
            left_out=decoded.left_out,
        )

    def _flattened(
        self, explode: Explode, decoded: Decoded, batch: Any, rows: Any
    ) -> tuple[Decoded, Any]:
        """Returns the columns with a row for each element, and the place of its record in `rows`.
        Adds faults for records with too many elements.
        """
        named = dict(zip(self._settings.columns, decoded.columns, strict=True))
        lists = named[explode.position]
        of_records = {n: one for n, one in named.items() if not explode.holds(n)}
        if "key" in batch.schema.names:
            of_records["key"] = batch.column("key").take(rows_array(rows))
        counts = pc.list_value_length(lists).to_numpy()
        for row, found in repeats(of_records, counts).items():
            decoded.faults.setdefault(row, found)
        parents = parents_of(lists)
        # Of a record with a fault one element is enough, whatever it would repeat.
        is_first = np.diff(parents, prepend=-1) != 0
        is_bad = np.zeros(len(lists), dtype=bool)
        is_bad[list(decoded.faults)] = True
        kept = is_first | ~is_bad[parents]
        parents = parents[kept]
        columns = [
            one.flatten().filter(pa.array(kept))
            if explode.holds(name)
            else one.take(rows_array(parents))
            for name, one in named.items()
        ]
        return replace(decoded, columns=columns), parents

    def _joined(self, decoded: Decoded, beside: Decoded, rows: Any) -> Decoded:
        """Returns all columns of the rows whose values are decoded, in the order of the settings.

        `beside` has the columns of key and headers for all rows.
        """
        if not self._beside:
            return decoded
        own, more = iter(decoded.columns), iter(beside.columns)
        columns = [
            next(more).take(rows_array(rows)) if name in self._beside else next(own)
            for name in self._settings.columns
        ]
        faults = dict(decoded.faults)
        places = {row: place for place, row in enumerate(rows.tolist())} if beside.faults else {}
        for row, found in beside.faults.items():
            if row in places:
                faults.setdefault(places[row], found)
        return replace(decoded, columns=columns, faults=faults)

    def _tombstones(
        self, schema: Any, beside: Decoded, dead: Any, bad: dict[int, Fault]
    ) -> tuple[Any, Any]:
        """Returns the rows without a value, and their columns: only those of key and headers have
        values. Rows that do not fit these columns become bad.
        """
        rows = np.flatnonzero(dead)
        columns = [column.take(rows_array(rows)) for column in beside.columns]
        places = enumerate(rows.tolist())
        faults = {n: beside.faults[row] for n, row in places if row in beside.faults}
        found = Decoded(columns, faults)
        self._completion_beside.complete(found)
        bad.update((int(rows[place]), one) for place, one in found.faults.items())
        held = dict(zip(self._beside, found.columns, strict=True)) | {EVENT_TIME: None}
        arrays = [
            pa.nulls(len(rows), field.type) if held.get(field.name) is None else held[field.name]
            for field in schema
        ]
        table = pa.RecordBatch.from_arrays(arrays, schema=schema)
        good = np.ones(len(rows), dtype=bool)
        good[list(found.faults)] = False
        return rows[good], table.filter(pa.array(good)) if found.faults else table

    def _event_times(self, decoded: Decoded, stamps: Any) -> Any:
        """Returns the event times, and adds a fault for each row without one or with one too far
        from its timestamp.
        """
        name = self._settings.event_time
        if name == RECORD_TIME:
            times, said = stamps, "the record has no timestamp"
        else:
            place = list(self._settings.columns).index(name)
            times, said = decoded.columns[place], f"column {name} is null"
        if times.null_count:
            missing = fault(Reason.NO_EVENT_TIME, said)
            for row in np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False)).tolist():
                decoded.faults.setdefault(row, missing)
        times = times.cast(TIMESTAMP_TYPE)
        for row, found in far_times(name, times, stamps, self._settings.max_ahead):
            decoded.faults.setdefault(row, found)
        return times


def _utf8(values: Any, rows: Any, bad: dict[int, Fault]) -> tuple[Any, Any]:
    """Returns the values as texts, without those that are no UTF-8, which become bad rows."""
    try:
        return pc.cast(values, pa.string()), rows
    except pa.ArrowInvalid:
        pass
    texts: list[str] = []
    kept: list[int] = []
    for row, value in zip(rows.tolist(), values.to_pylist(), strict=True):
        try:
            texts.append(value.decode())
            kept.append(row)
        except UnicodeDecodeError as why:
            detail = f"byte {why.start} of {shown(value)}"
            bad[row] = fault(Reason.NOT_UTF8, detail)
    return pa.array(texts, type=pa.string()), np.array(kept, dtype=np.int64)
