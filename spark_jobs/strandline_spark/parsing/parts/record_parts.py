"""The columns that are read from a record's key or from one of its headers, also if its value is
null.

A column takes all bytes of the part, as a text of its type. With `field` it takes a place in the
part's JSON. Of several headers of one name the last one counts, as for Kafka's `lastHeader`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.cleaning import clean_fields
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.json_values import JsonDecoder
from strandline_spark.parsing.parts.json_texts import reader_of
from strandline_spark.parsing.settings import HEADER, KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.parsing.settings import ColumnType


class RecordParts:
    """The reader of the columns of key and headers."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        """Prepares the reader; each column has a `source`."""
        self._names = list(columns)
        sources = dict.fromkeys(kind.source for kind in columns.values())
        self._parts = [
            _Part(str(source), {n: kind for n, kind in columns.items() if kind.source == source})
            for source in sources
        ]

    def decode(self, batch: Any) -> Decoded:
        """Decodes a record batch with `key` and `headers`, as far as columns need them."""
        found: dict[str, Any] = {}
        faults: dict[int, Fault] = {}
        for part in self._parts:
            found |= part.read(batch, faults)
        return Decoded([found[name] for name in self._names], faults)


class _Part:
    """One part of the records, with its columns."""

    def __init__(self, source: str, columns: Mapping[str, ColumnType]) -> None:
        self._header = None if source == KEY else source.removeprefix(HEADER)
        self._said = "the key" if self._header is None else f"the header {self._header}"
        whole = {name: kind for name, kind in columns.items() if kind.field is None}
        self._bytes = [n for n, kind in whole.items() if _is_bytes(kind)]
        self._texts = [
            (name, kind, reader_of(name, kind))
            for name, kind in whole.items()
            if not _is_bytes(kind)
        ]
        fields = {n: replace(kind, source=None) for n, kind in columns.items() if n not in whole}
        self._fields = list(fields)
        self._decoder = None
        if fields:
            self._decoder = JsonDecoder(fields, ignores_new_fields=True, takes_any_value=True)

    def read(self, batch: Any, faults: dict[int, Fault]) -> dict[str, Any]:
        data = batch.column("key")
        if self._header is not None:
            data = _last_headers(batch.column("headers"), self._header)
        found = dict.fromkeys(self._bytes, data)
        if not self._texts and self._decoder is None:
            return found
        texts = self._utf8(data, faults)
        for name, kind, reader in self._texts:
            found[name] = reader.read(clean_fields(texts, kind, ()), faults)
        if self._decoder is not None:
            found |= self._json(self._decoder, texts, faults)
        return found

    def _utf8(self, data: Any, faults: dict[int, Fault]) -> Any:
        """Returns the part as texts, null for bytes that are no UTF-8, which are faults."""
        try:
            return pc.cast(data, pa.string())
        except pa.ArrowInvalid:
            pass
        texts: list[str | None] = []
        for row, value in enumerate(data.to_pylist()):
            text = None
            try:
                text = None if value is None else value.decode()
            except UnicodeDecodeError as why:
                detail = f"{self._said}: byte {why.start} of {shown(value)}"
                faults.setdefault(row, fault(Reason.NOT_UTF8, detail))
            texts.append(text)
        return pa.array(texts, pa.string())

    def _json(self, decoder: JsonDecoder, texts: Any, faults: dict[int, Fault]) -> dict[str, Any]:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(there)
        decoded = decoder.decode(texts.drop_null())
        for place, (reason, detail) in decoded.faults.items():
            faults.setdefault(int(rows[place]), fault(reason, f"{self._said}: {detail}"))
        back = pa.array(np.cumsum(there) - 1, mask=~there)
        columns = (column.take(back) for column in decoded.columns)
        return dict(zip(self._fields, columns, strict=True))


def _is_bytes(kind: ColumnType) -> bool:
    return kind.name == "binary" and kind.format is None


def _last_headers(headers: Any, name: str) -> Any:
    """Returns the value of each record's last header of this name; null without one."""
    values = headers.flatten()
    is_it = pc.equal(values.field("key"), name).fill_null(False)
    found = np.flatnonzero(is_it.to_numpy(zero_copy_only=False))
    records = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)[found]
    places = np.full(len(headers), -1, np.int64)
    np.maximum.at(places, records, found)
    return values.field("value").take(pa.array(places, mask=places < 0))
