"""Values that are Avro datums: without a header, or with that of a schema registry."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final

import fastavro
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from fastavro.read import SchemaResolutionError

from strandline_spark.parsing.avro.schemas import datum_plans
from strandline_spark.parsing.avro.walk import LEVELS_MAX, AvroWalk, TooDeepError
from strandline_spark.parsing.cleaning import clean_text
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.framing import HEADER_BYTES, NoHeaderError, has_header, schema_id
from strandline_spark.parsing.parts.explode import explode_of
from strandline_spark.parsing.parts.json_parts import no_array, no_place
from strandline_spark.parsing.parts.paths import NoPlaceError
from strandline_spark.parsing.texts import in_zone
from strandline_spark.parsing.zones import Zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.parsing.avro.columns import AvroColumn
    from strandline_spark.parsing.avro.schemas import DatumPlan
    from strandline_spark.parsing.settings import ColumnType, ParseSettings

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
        self._plans = datum_plans(settings)
        self._columns = next(iter(self._plans.values())).columns
        self._walks = {key: AvroWalk(plan.writer) for key, plan in self._plans.items()}
        self._has_header = has_header(settings)
        self._kinds = list(settings.columns.values())
        self._zones = [None if kind.zone is None else Zone(kind.zone) for kind in self._kinds]
        self._explode = explode_of(settings.columns, settings.explode)

    def decode(self, values: Any) -> Decoded:
        faults: dict[int, Fault] = {}
        found: list[list[Any]] = [[] for _ in self._kinds]
        sizes: list[int] = []
        for row, value in enumerate(values.to_pylist()):
            columns: Sequence[AvroColumn] = self._columns
            datum: Any = {}
            try:
                plan, datum = self._datum(value)
                columns = plan.columns
            except _BadValue as why:
                faults[row] = fault(why.reason, f"{why}: {shown(value)}")
            elements = self._elements(row, datum, faults)
            sizes.append(len(elements))
            for column, kind, held in zip(columns, self._kinds, found, strict=True):
                if self._explode is None or not self._explode.holds(column.name):
                    held.append(_one(column, kind, row, datum, faults))
                elif column.name == self._explode.position:
                    held += self._explode.positions_of(elements, datum)
                else:
                    held += (_one(column, kind, row, one, faults) for one in elements)
        arrays = []
        for column, held, kind, zone in zip(
            self._columns, found, self._kinds, self._zones, strict=True
        ):
            array = pa.array(held, type=kind.arrow if zone is None else pa.timestamp("us"))
            array = array if zone is None else in_zone(array, zone)
            if self._explode is not None and self._explode.holds(column.name):
                ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
                array = pa.ListArray.from_arrays(ends, array)
            arrays.append(array)
        return Decoded(arrays, faults)

    def _elements(self, row: int, datum: Any, faults: dict[int, Fault]) -> list[Any]:
        """Returns the exploded elements."""
        if self._explode is None or row in faults:
            return [None]
        try:
            return self._explode.elements_in(datum)
        except NoPlaceError as why:
            faults[row] = no_array(self._explode.path, why)
            return [None]

    def _datum(self, value: bytes) -> tuple[DatumPlan, Any]:
        """Returns the record's plan and fields. Raises _BadValue if the value is no datum."""
        key, body = self._opened(value)
        plan = self._plans[key]
        stream = io.BytesIO(body)
        try:
            self._walks[key].check(body)
            datum: Any = fastavro.schemaless_reader(stream, plan.writer, plan.reader)
        except TooDeepError as error:
            said = f"more than {LEVELS_MAX} levels within each other"
            raise _BadValue(Reason.NESTED_TOO_DEEPLY, said) from error
        except SchemaResolutionError as error:
            said = f"a value of schema {key} is of no type of the reader's schema"
            raise _BadValue(Reason.WRONG_TYPE, said) from error
        except _BROKEN as error:
            raise _BadValue(Reason.NOT_AVRO, _what_of(error)) from error
        left = len(body) - stream.tell()
        if left:
            raise _BadValue(Reason.NOT_AVRO, f"{left} bytes are left over")
        return plan, datum

    def _opened(self, value: bytes) -> tuple[int | None, bytes]:
        """Returns the key of the value's plan, and the value without its header."""
        if not self._has_header:
            return None, value
        try:
            found = schema_id(value)
        except NoHeaderError as error:
            raise _BadValue(Reason.NO_SCHEMA_ID, str(error)) from error
        key = None if None in self._plans else found
        if key not in self._plans:
            raise _BadValue(Reason.UNKNOWN_SCHEMA, f"[silver] schemas has no schema {found}")
        return key, value[HEADER_BYTES:]


class _BadValue(Exception):
    """A value that is no datum."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def _one(
    column: AvroColumn, kind: ColumnType, row: int, value: Any, faults: dict[int, Fault]
) -> Any:
    """Returns what a column holds of a record or an element; None in a row with a fault."""
    if row in faults:
        return None
    try:
        one = column.path.found_in(value)
        if isinstance(one, str):
            one = clean_text(one, kind)
        return None if one is None else column.read(one)
    except NoPlaceError as why:
        faults[row] = no_place(column.name, column.path, why)
    except (ValueError, ArithmeticError) as error:
        faults[row] = fault(Reason.OUT_OF_RANGE, str(error))
    return None


def _what_of(error: Exception) -> str:
    """Describes the error in our own words. A batch that runs again must give the same text, and
    fastavro's texts have addresses in them.
    """
    if isinstance(error, EOFError):
        return "the value ends before the datum does"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not UTF-8"
    return "no datum of the schema"
