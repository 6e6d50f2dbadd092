"""JSON read by msgspec, by the rows' own reader and by a plain loop: three times the same."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.parsing import column_type
from support.examples import examples
from support.parsing import batch_of, one_by_one, outcomes_of, parser_of
from support.parsing_json import TYPES, OnlyRows, columns, in_rows

if TYPE_CHECKING:
    from collections.abc import Callable

PARSER = parser_of("json", **TYPES)


def oracle(value: bytes) -> dict[str, Any] | None:
    """The columns of a value that is one object of the right types; None for another."""
    try:
        fields = json.loads(
            value.decode(),
            object_pairs_hook=unique,
            parse_constant=refuse,
            parse_float=Decimal,
        )
        json.dumps(fields, ensure_ascii=False, default=str).encode()
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    found = {name: fields[name] for name in HOLDS if fields.get(name) is not None}
    if not all(HOLDS[name](value) for name, value in found.items()):
        return None
    if "d" in found:
        found["d"] = json.loads(value, parse_int=float)["d"]  # an int would lose the sign of -0
    if "m" in found:
        found["m"] = Decimal(found["m"]).quantize(Decimal("0.01")) or Decimal("0.00")
    return found


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def refuse(name: str) -> Any:
    raise ValueError(name)


def is_amount(value: Any) -> bool:
    if type(value) not in (int, Decimal) or abs(value) >= 10_000:
        return False
    return Decimal(value) == round(Decimal(value), 2)


HOLDS: dict[str, Callable[[Any], bool]] = {
    "i": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "l": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "s": lambda value: type(value) is str,
    "b": lambda value: type(value) is bool,
    "d": lambda value: type(value) in (int, Decimal) and abs(float(value)) != float("inf"),
    "m": is_amount,
}


NUMBERS = st.one_of(
    st.integers(-(2**31) - 1, 2**31).map(str),
    st.integers(-(2**63) - 1, 2**63).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.decimals(-10_001, 10_001, places=3).map(str),
    st.sampled_from(["0", "-0", "1.50", "1e2", "1E-2", "1e400", "1e-400", "NaN", "01", "-"]),
)
STRINGS = st.one_of(
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(['"\\ud800"', '"\\ud83d\\ude00"', '"\\u0001"', '"{["', '"NaN"', '"\n"']),
)
NESTED = st.sampled_from(["[]", "{}", "[1,[2]]", '{"a":{"a":1}}', '{"a":1,"a":2}', "[NaN]"])
SCALARS = st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "null"]))
RIGHT = st.fixed_dictionaries(
    {},
    optional={
        '"i"': st.integers(-(2**31), 2**31 - 1).map(str),
        '"l"': st.integers(-(2**63), 2**63 - 1).map(str),
        '"d"': st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
        '"s"': st.text(max_size=5).map(json.dumps),
        '"b"': st.sampled_from(["true", "false", "null"]),
        '"m"': st.decimals(-9999, 9999, places=2).map(str),
        '"new"': st.one_of(NESTED.filter(lambda text: ":2" not in text), STRINGS),
    },
).map(lambda fields: list(fields.items()))
ANY = st.lists(
    st.tuples(
        st.sampled_from(
            [f'"{name}"' for name in ("i", "l", "d", "s", "b", "m", "new", "\\u0001", "\\u0069")]
        ),
        st.one_of(SCALARS, NESTED),
    ),
    max_size=4,
)


def spelt(fields: list[tuple[str, str]], space: str) -> str:
    return "{" + ",".join(f"{name}{space}:{value}" for name, value in fields) + space + "}"


OBJECTS = st.builds(spelt, st.one_of(RIGHT, ANY), st.sampled_from(["", " ", "\n"]))
SOUP = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ",", '"i":1', '"new":', "\n", '"s":"', '"', "1", "\\", "\0"]
    ),
    max_size=8,
).map("".join)
CUT = st.tuples(st.lists(OBJECTS, min_size=1, max_size=4), st.lists(st.integers(0, 80), max_size=4))


def pieces_of(drawn: tuple[list[str], list[int]]) -> list[bytes]:
    """A text of objects, cut where it falls."""
    text = "".join(drawn[0]).encode("utf-8", "surrogatepass")
    cuts = [0, *sorted(drawn[1]), len(text)]
    return [text[a:b] for a, b in pairwise(cuts)]


VALUES = st.one_of(
    st.lists(RIGHT.map(lambda fields: spelt(fields, "").encode()), max_size=6),
    st.lists(OBJECTS.map(str.encode), max_size=6),
    st.lists(st.one_of(OBJECTS, SOUP).map(str.encode), max_size=6),
    st.lists(st.binary(max_size=4), max_size=3),
    CUT.map(pieces_of),
)


@given(VALUES)
@settings(max_examples=examples(140))
def test_both_readers_say_what_a_plain_loop_says(values: list[bytes]) -> None:
    parsed = PARSER.parse(batch_of(values))
    found = outcomes_of(parsed, len(values))
    assert (found, parsed.new_fields) == in_rows(list(values))
    assert found == one_by_one(PARSER, values)
    for value, outcome in zip(values, found, strict=True):
        expected = oracle(value)
        assert (outcome[0] == "good") == (expected is not None), (value, outcome)
        if expected is not None:
            got = columns(outcome)
            del got["event_time"]
            assert repr(sorted(got.items())) == repr(sorted(expected.items()))


WIDENING = {
    "i": replace(column_type("bigint"), any_kind=True),
    "d": replace(column_type("double"), any_kind=True),
    "m": replace(column_type("decimal(38,18)"), any_kind=True),
    "b": replace(column_type("boolean"), any_kind=True),
    "s": replace(column_type("string"), any_kind=True),
    "l": column_type("bigint"),
}
INFERRED = parser_of("json", **WIDENING)
FROM_ROWS = parser_of("json", **WIDENING)
FROM_ROWS._decoder = OnlyRows(WIDENING)


@given(VALUES)
@settings(max_examples=examples(100))
def test_columns_of_new_fields_are_read_alike_by_both(values: list[bytes]) -> None:
    some, others = (parser.parse(batch_of(values)) for parser in (INFERRED, FROM_ROWS))
    found = outcomes_of(some, len(values))
    assert repr(found) == repr(outcomes_of(others, len(values)))
    assert some.new_fields == others.new_fields
    for value, outcome in zip(values, found, strict=True):
        if outcome[0] == "good":
            fields = json.loads(value, parse_float=Decimal)
            for name in ("i", "d", "m"):
                held = outcome[1][name]
                wanted = fields.get(name)
                assert held is None or Decimal(str(held)) == wanted, (value, held)
                if wanted is not None and held is None:
                    assert WIDENING[name].name not in some.new_fields[name].split()
