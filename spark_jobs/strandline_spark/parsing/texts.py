"""The conversion of texts to a column's type, the same for all formats. A text that does not fit is
a fault of its row alone.
"""

from __future__ import annotations

import binascii
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.decimals import Decimals, is_number
from strandline_spark.parsing.decoded import data_of
from strandline_spark.parsing.epochs import EPOCHS, EpochNumbers
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.strptime import DAY_US, TimeFormat
from strandline_spark.parsing.zones import Zone
from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_spark.parsing.settings import ColumnType

TIME_US_MIN: Final = -62_135_596_800_000_000
TIME_US_MAX: Final = 253_402_300_799_999_999
"""The years 1 to 9999, which Python, Spark and Delta all support."""
_EPOCH_ORDINAL: Final = 719_163
_NO_ZONE: Final[Any] = pa.timestamp("us")
BYTES: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "base64": partial(binascii.a2b_base64, strict_mode=True),
    "hex": binascii.a2b_hex,
}
"""The readers of texts that stand for bytes, by the names of their formats."""
_ZONED: Final = r"[T ].*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_FINER: Final = r"(\.[0-9]{6})[0-9]{1,3}"
"""Digits after the microseconds, which are cut off, as in Spark."""
_INTEGER: Final = re.compile(r"-?[0-9]+")


class _NoSuchYear(ValueError):
    """A time before the year 1 or after 9999."""


class Texts:
    """The reader of one column's texts. `name` is for the details."""

    def __init__(self, name: str, kind: ColumnType) -> None:
        self._name = name
        self._kind = kind
        form = kind.format
        self._epoch = EpochNumbers(form) if form in EPOCHS else None
        self._bytes = None if form is None else BYTES.get(form)
        has_own = form is None or self._epoch is not None or self._bytes is not None
        self._format = None if has_own else TimeFormat(str(form))
        self._zone = None if kind.zone is None else Zone(kind.zone)
        self._decimals = Decimals(kind.arrow) if pa.types.is_decimal(kind.arrow) else None

    def read(self, texts: Any, faults: dict[int, Fault], first_row: int = 0) -> Any:
        """Returns an array of the column's type, null where the text is null or does not fit.

        Adds a fault for each text that does not fit, unless its row has one.
        """
        if self._kind.name == "string":
            return texts
        pieces: list[Any] = []
        self._read(texts, faults, first_row, pieces)
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def _read(self, texts: Any, faults: dict[int, Fault], row: int, pieces: list[Any]) -> None:
        """Reads in halves, until a text that does not fit is alone."""
        try:
            pieces.append(self._formatted(texts) if self._format else self._cast(texts))
        except (pa.ArrowInvalid, ValueError) as why:
            if len(texts) == 1:
                if texts.null_count == 0:
                    faults.setdefault(row, self._fault(texts[0].as_py(), why))
                pieces.append(pa.nulls(1, self._kind.arrow))
                return
            half = len(texts) // 2
            self._read(texts[:half], faults, row, pieces)
            self._read(texts[half:], faults, row + half, pieces)

    def _cast(self, texts: Any) -> Any:
        """Casts all texts or none: raises ArrowInvalid or ValueError."""
        name = self._kind.name
        if self._decimals is not None:
            return self._decimals.read(texts)
        if self._bytes is not None:
            return _bytes(texts, self._bytes)
        if self._epoch is not None:
            return _in_years(self._epoch.read(texts).cast(self._kind.arrow), self._kind.arrow)
        if name == "timestamp":
            return _in_years(_timestamps(texts, self._zone), self._kind.arrow)
        if name in ("int", "bigint") and re.search(rb"[xX]", data_of(texts)):
            raise ValueError("Arrow takes 0x10 for a number")
        found = pc.cast(texts, self._kind.arrow)
        if name == "double" and not all_finite(found):
            raise ValueError("not a number, or too large for one")
        if name == "date":
            return _in_years(found, self._kind.arrow)
        return found

    def _formatted(self, texts: Any) -> Any:
        """Casts the texts by the column's format."""
        assert self._format is not None
        if texts.null_count:
            valid = self._formatted(texts.drop_null())
            places = np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)) - 1
            return valid.take(pa.array(places, mask=texts.is_null().to_numpy(zero_copy_only=False)))
        times = self._format.all(texts)
        days, moments = times.days, times.times_us
        for row in np.flatnonzero(~times.known).tolist():
            day, moments[row] = self._format.one(texts[row].as_py())
            days[row] = day.toordinal() - _EPOCH_ORDINAL
        if self._zone is not None:
            moments = self._zone.utc(moments)
        found = days.astype(np.int32) if self._kind.name == "date" else moments
        return _in_years(pa.array(found).cast(self._kind.arrow), self._kind.arrow)

    def _fault(self, text: str, why: Exception) -> Fault:
        name, said = self._kind.name, f"column {self._name}: {shown(text)}"
        if name in ("int", "bigint"):
            known = _INTEGER.fullmatch(text) is not None
        else:
            is_numeric = name == "double" or self._decimals or self._epoch
            known = bool(is_numeric) and is_number(text)
        if known or isinstance(why, _NoSuchYear):
            return fault(Reason.OUT_OF_RANGE, f"{said} does not fit {name}")
        form = "" if self._kind.format is None else f" in the format {self._kind.format!r}"
        return fault(Reason.WRONG_TYPE, f"{said} is no {name}{form}")


def _bytes(texts: Any, read: Callable[[bytes], bytes]) -> Any:
    """Returns the bytes that the texts stand for. Raises ValueError."""
    written = texts.cast(pa.binary()).to_pylist()
    return pa.array([None if one is None else read(one) for one in written], pa.binary())


def all_finite(doubles: Any) -> bool:
    """True if neither NaN nor an infinity is among them."""
    return bool(pc.all(pc.is_finite(doubles), min_count=0).as_py())


def _timestamps(texts: Any, zone: Zone | None) -> Any:
    """Returns times of ISO 8601, with a zone or without, which are then of `zone` (None: of UTC).
    Raises ArrowInvalid.
    """
    for kind in (TIMESTAMP_TYPE, _NO_ZONE):
        try:
            found = pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
        return found if kind is TIMESTAMP_TYPE else in_zone(found, zone)
    cut = pc.replace_substring_regex(texts, _FINER, r"\1")
    zoned = pc.match_substring_regex(texts, _ZONED)
    with_zone = pc.cast(pc.if_else(zoned, cut, None), TIMESTAMP_TYPE)
    without = in_zone(pc.cast(pc.if_else(zoned, None, cut), _NO_ZONE), zone)
    return pc.coalesce(with_zone, without)


def in_zone(local: Any, zone: Zone | None) -> Any:
    """Returns local times (microseconds without a zone) of `zone` as times in UTC."""
    if zone is None:
        return local.cast(TIMESTAMP_TYPE)
    numbers = local.cast(pa.int64())
    utc = zone.utc(numbers.fill_null(0).to_numpy(zero_copy_only=False))
    mask = numbers.is_null().to_numpy(zero_copy_only=False)
    return pa.array(utc, pa.int64(), mask=mask).cast(TIMESTAMP_TYPE)


def _in_years(found: Any, kind: Any) -> Any:
    """Returns `found` (dates or timestamps). Raises _NoSuchYear."""
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    unit = DAY_US if kind == pa.date32() else 1
    ends = pc.min_max(found.cast(whole)).as_py()
    low, high = ends["min"], ends["max"]
    if low is not None and not TIME_US_MIN <= low * unit <= high * unit <= TIME_US_MAX:
        raise _NoSuchYear
    return found
