"""Numbers as texts, in decimal columns: a column holds the exact number, or the text does not fit.

Arrow's own cast multiplies within 128 bits and raises no error if they do not suffice. It ends the
process for an exponent that is far below zero. So Arrow casts only texts that cannot exceed 38
digits on the way. Other texts are read here, by the places of their digits: the size of an exponent
costs neither time nor memory.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

EXPONENT_MAX: Final = 999_999
"""Limit of a written number's exponent, as in Python's `decimal` by default. Beyond it a number
does not fit, even a zero.
"""
_EXPONENT_DIGITS: Final = len(str(EXPONENT_MAX))
_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<bare>[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+))?"
)
"""The pattern of a number. No text takes longer than its length: no two parts can take the same
digit.
"""
_EXACT: Final = Context(prec=100, Emax=10**9, Emin=-(10**9))


def is_number(text: str) -> bool:
    """True if the text is a number, of any size."""
    return _NUMBER.fullmatch(text) is not None


def exact(text: str, precision: int, scale: int) -> Decimal:
    """Returns the number, with `scale` digits after the point.

    Raises ValueError for a text that is no number, or has a digit other than 0 where
    `decimal(precision,scale)` has no place.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("no number")
    part = found["part"] or found["bare"] or ""
    exponent = _exponent(found["exponent"] or "0")
    digits = ((found["whole"] or "") + part).lstrip("0")
    lowest = exponent - len(part)
    short = digits.rstrip("0")
    lowest += len(digits) - len(short)
    if short == "":
        return Decimal(0).scaleb(-scale, _EXACT)
    if lowest < -scale or lowest + len(short) > precision - scale:
        raise ValueError("a digit would be lost")
    value = Decimal(short).scaleb(lowest, _EXACT)
    return (-value if found["sign"] == "-" else value).quantize(
        Decimal(1).scaleb(-scale, _EXACT), context=_EXACT
    )


def _exponent(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _EXPONENT_DIGITS or int(digits or "0") > EXPONENT_MAX:
        raise ValueError("the exponent is too large")
    return -int(digits or "0") if text[0] == "-" else int(digits or "0")


class Decimals:
    """The reader for columns of one type."""

    def __init__(self, kind: Any) -> None:
        """Prepares the reader; `kind` is the type in Arrow."""
        self._kind = kind
        self._precision, self._scale = kind.precision, kind.scale
        whole, part = kind.precision - kind.scale, kind.scale
        before = f"[0-9]{{1,{whole}}}" if whole else "0"
        after = f"\\.[0-9]{{1,{part}}}" if part else ""
        bare = f"|{after}" if part else ""
        self._plain = rf"\A-?(?:{before}(?:{after})?{bare})\z"

    def read(self, texts: Any) -> Any:
        """Reads all texts or none: raises ValueError unless each of them fits."""
        plain = pc.match_substring_regex(texts, self._plain)
        if pc.all(plain, min_count=0).as_py():
            return pc.cast(texts, self._kind)
        cast = pc.cast(pc.if_else(plain, texts, None), self._kind).to_pylist()
        for row in np.flatnonzero(~plain.fill_null(True).to_numpy(zero_copy_only=False)).tolist():
            cast[row] = exact(texts[row].as_py(), self._precision, self._scale)
        return pa.array(cast, self._kind)
