"""The type of a column for a new field of json: the narrowest that holds all values of the field,
to the last digit.

For each value the types that hold it are known, and for several values the types that hold all of
them. So the type follows from the values alone, whatever batches they came in. A column becomes
wider with a value that it does not hold, and no such value is quarantined.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from strandline_spark.parsing.decimals import exact

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

BIGINT: Final = (-(2**63), 2**63 - 1)
DECIMAL: Final = "decimal(38,18)"
INFERRED: Final = ("boolean", "bigint", "double", DECIMAL, "string")
"""The types, narrowest first. A string holds any value, as its JSON text."""
TEXT: Final = "string"
BOOLEAN: Final = "boolean string"
_SHAPE: Final = (38, 18)
_BIGINT_DIGITS: Final = 19


def types_of_whole(text: str) -> str:
    """Returns the types that hold a JSON number without fraction and exponent, in order and with a
    blank between.
    """
    low, high = BIGINT
    fits = len(text) <= _BIGINT_DIGITS + 1 and low <= int(text) <= high
    return f"bigint {types_of_number(text)}" if fits else types_of_number(text)


def types_of_number(text: str) -> str:
    """Returns the types with fractions that hold any JSON number."""
    double = "double " if is_double(text) else ""
    return f"{double}{DECIMAL} string" if is_decimal(text) else f"{double}string"


def is_double(text: str) -> bool:
    """True if a double gives back the same number."""
    try:
        return Decimal(repr(float(text))) == Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        return False


def is_decimal(text: str) -> bool:
    """True if `DECIMAL` holds the number."""
    try:
        exact(text, *_SHAPE)
    except ValueError:
        return False
    return True


def narrowest(types: str) -> str:
    """Returns the narrowest of the types that hold all values."""
    return types.partition(" ")[0]


def holds(types: str, kind: str) -> bool:
    """True if a column of the type holds them."""
    return kind in types.split()


def merge_fields(found: MutableMapping[str, str], more: Mapping[str, str]) -> None:
    """Adds fields to those of other rows: for each the types that hold all its values."""
    for name, types in more.items():
        known = found.get(name, types)
        found[name] = types if known == types else common(known, types)


def common(some: str, others: str) -> str:
    """Returns the types that are in both."""
    both = set(some.split()) & set(others.split())
    return " ".join(kind for kind in INFERRED if kind in both)
