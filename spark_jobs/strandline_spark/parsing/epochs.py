"""Times that are numbers since 1970-01-01 00:00 UTC, in columns of texts.

A number may have a fraction and an exponent: some writers have `1700000000.5` or `1.7000000005E9`.
The result is exact. Digits after the microseconds are cut off towards the past, as those of a text
such as `12:00:00.1234567` are.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.decimals import is_number

_PLACES: Final = {"epoch_s": 6, "epoch_ms": 3, "epoch_us": 0, "epoch_ns": -3}
"""Power of ten by which a number is multiplied to be in microseconds."""
EPOCHS: Final = tuple(_PLACES)
"""The names of the formats."""
_PLAIN: Final = r"\A-?[0-9]{1,18}\z"
"""Whole numbers that have 64 bits, also after a cut to microseconds."""
_SIZE_MAX: Final = 30
"""Power of ten beyond which no number is a time in any unit, and below which each is less than a
microsecond.
"""
_BOUND: Final = 1 << 62
"""The result for a time beyond 64 bits: it lies outside the years 1 to 9999 too."""


class EpochNumbers:
    """The reader of the numbers of one format."""

    def __init__(self, form: str | None) -> None:
        """Prepares the reader; `form` is one of EPOCHS."""
        assert form is not None
        self._places = _PLACES[form]
        low, high = -_BOUND, _BOUND
        if self._places > 0:
            low, high = -(_BOUND // 10**self._places), _BOUND // 10**self._places
        self._low, self._high = low, high

    def read(self, texts: Any) -> Any:
        """Returns an array of microseconds (int64). Raises ValueError for a text that is no number.

        A time beyond 64 bits becomes one outside the years 1 to 9999.
        """
        plain = pc.match_substring_regex(texts, _PLAIN)
        if pc.all(plain, min_count=0).as_py():
            return self._scaled(pc.cast(texts, pa.int64()))
        found = self._scaled(pc.cast(pc.if_else(plain, texts, None), pa.int64())).to_pylist()
        for row in np.flatnonzero(~plain.fill_null(True).to_numpy(zero_copy_only=False)).tolist():
            found[row] = self.one(texts[row].as_py())
        return pa.array(found, pa.int64())

    def one(self, text: str) -> int:
        """Returns the microseconds of one text. Raises ValueError."""
        if not is_number(text):
            raise ValueError("no number")
        try:
            number = Decimal(text)
        except InvalidOperation as why:
            raise ValueError("the exponent is too large") from why
        return self.exact(number)

    def exact(self, number: Decimal) -> int:
        """Returns the microseconds of a finite number."""
        if number == 0:
            return 0
        size = number.adjusted()
        if size > _SIZE_MAX:
            return _BOUND if number > 0 else -_BOUND
        if size < -_SIZE_MAX:
            return 0 if number > 0 else -1
        digits = Context(prec=len(number.as_tuple().digits) + 1)
        scaled = number.scaleb(self._places, digits)
        whole = int(scaled.to_integral_value(ROUND_FLOOR))
        return max(-_BOUND, min(_BOUND, whole))

    def _scaled(self, numbers: Any) -> Any:
        """Returns int64 numbers of the unit in microseconds."""
        if self._places == 0:
            return numbers
        mask = numbers.is_null().to_numpy(zero_copy_only=False)
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        if self._places > 0:
            scaled = np.clip(values, self._low, self._high) * 10**self._places
        else:
            scaled = values // 10**-self._places
        return pa.array(scaled, pa.int64(), mask=mask)
