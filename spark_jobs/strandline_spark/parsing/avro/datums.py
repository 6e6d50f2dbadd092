"""Values that are Avro datums without a header, each of the writer's schema in the settings."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing.avro.columns import reader_plan
from strandline_spark.parsing.avro.walk import LEVELS_MAX, AvroWalk, TooDeepError
from strandline_spark.parsing.cleaning import clean_text
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.parts.json_parts import no_place
from strandline_spark.parsing.parts.paths import NoPlaceError
from strandline_spark.parsing.texts import in_zone
from strandline_spark.parsing.zones import Zone

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings

_BROKEN: Final = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    MemoryError,
    ArithmeticError,
    RecursionError,
    struct.error,
)
"""Errors that fastavro raises for bytes that are no datum."""


class AvroDecoder:
    """The decoder for the settings of one table."""

    def __init__(self, settings: ParseSettings) -> None:
        self._schema, self._columns = reader_plan(settings)
        self._walk = AvroWalk(self._schema)
        self._kinds = list(settings.columns.values())
        self._zones = [None if kind.zone is None else Zone(kind.zone) for kind in self._kinds]

    def decode(self, values: Any) -> Decoded:
        faults: dict[int, Fault] = {}
        found: list[list[Any]] = [[] for _ in self._columns]
        for row, value in enumerate(values.to_pylist()):
            datum = self._datum(row, value, faults)
            for column, kind, held in zip(self._columns, self._kinds, found, strict=True):
                try:
                    one = None if row in faults else column.path.found_in(datum)
                    if isinstance(one, str):
                        one = clean_text(one, kind)
                    held.append(None if one is None else column.read(one))
                except NoPlaceError as why:
                    held.append(None)
                    faults[row] = no_place(column.name, column.path, why)
                except (ValueError, ArithmeticError) as error:
                    held.append(None)
                    faults.setdefault(row, fault(Reason.OUT_OF_RANGE, str(error)))
        arrays = [
            pa.array(held, type=kind.arrow)
            if zone is None
            else in_zone(pa.array(held, pa.timestamp("us")), zone)
            for held, kind, zone in zip(found, self._kinds, self._zones, strict=True)
        ]
        return Decoded(arrays, faults)

    def _datum(self, row: int, value: bytes, faults: dict[int, Fault]) -> Any:
        """Returns the record's fields: none if the value is no datum, which is a fault."""
        stream = io.BytesIO(value)
        reason = Reason.NOT_AVRO
        try:
            self._walk.check(value)
            datum: Any = fastavro.schemaless_reader(stream, self._schema, None)
            left = len(value) - stream.tell()
            why = f"{left} bytes are left over" if left else None
        except TooDeepError:
            datum, reason = {}, Reason.NESTED_TOO_DEEPLY
            why = f"more than {LEVELS_MAX} levels within each other"
        except _BROKEN as error:
            datum, why = {}, _what_of(error)
        if why is None:
            return datum
        faults[row] = fault(reason, f"{why}: {shown(value)}")
        return {}


def _what_of(error: Exception) -> str:
    """Describes the error in our own words. A batch that runs again must give the same text, and
    fastavro's texts have addresses in them.
    """
    if isinstance(error, EOFError):
        return "the value ends before the datum does"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not UTF-8"
    return "no datum of the schema"
