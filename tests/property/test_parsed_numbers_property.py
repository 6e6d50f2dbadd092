"""A number in any of the four formats is in its column as Python reads it, or it is quarantined: no
column ever holds another number.
"""

from __future__ import annotations

import io
import json
import math
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.parsing.decimals import EXPONENT_MAX
from support.examples import examples
from support.parsing import one_by_one, outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing import Parser

EXACT = Context(prec=20_000, Emax=10**17, Emin=-(10**17))
TEXTS = ("json", "quoted json", "csv", "regex")
"""The formats in which a number is a text."""


@cache
def parser(form: str, kind: str) -> Parser:
    options = {"pattern": r"(?P<n>(?:.|\n)*)"} if form == "regex" else None
    return parser_of(form.split()[-1], options=options, n=kind)  # type: ignore[arg-type]


def value_of(form: str, text: str) -> str:
    if form == "json":
        return f'{{"n":{text}}}'
    return json.dumps({"n": text}) if form == "quoted json" else text


def read(form: str, kind: str, *texts: str) -> list[Any]:
    """What the column holds, or the reason why the value is quarantined."""
    values = [value_of(form, text) for text in texts]
    found = outcomes(parser(form, kind), values)
    assert found == one_by_one(parser(form, kind), values)
    return [each[1]["n"] if each[0] == "good" else each[1] for each in found]


def decimal_of(text: str, precision: int, scale: int) -> Decimal | str:
    """By Python's own decimals."""
    if abs(int(text.lower().partition("e")[2] or 0)) > EXPONENT_MAX:
        return "out of range"
    number = Decimal(text)
    if number == 0:
        return Decimal(0).scaleb(-scale)
    if number.adjusted() >= precision - scale:
        return "out of range"
    lowest = number.adjusted() + 1 - len(number.normalize(EXACT).as_tuple().digits)
    if lowest < -scale:
        return "out of range"
    return number.quantize(Decimal(1).scaleb(-scale, EXACT), context=EXACT)


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize(
    ("text", "held"),
    [
        (str(2**256 - 1), "out of range"),
        (str(2**128 - 1), "out of range"),
        ("340282366920938463463374607431768211468", "out of range"),
        ("9" * 39, "out of range"),
        ("9" * 38, "out of range"),
        ("9" * 37, "out of range"),
        ("9" * 36 + ".99", Decimal("9" * 36 + ".99")),
        ("-" + "9" * 36 + ".99", Decimal("-" + "9" * 36 + ".99")),
        ("0.1" + "0" * 40, Decimal("0.10")),
        ("1" + "0" * 5000 + "e-5000", Decimal("1.00")),
        ("0." + "0" * 5000 + "1e5000", Decimal("0.10")),
        ("0.001", "out of range"),
        ("1e-77", "out of range"),
        ("1e-1000000000", "out of range"),
        ("1E+1000000000", "out of range"),
        ("0e-999999999", "out of range"),
        ("-0.0e999999999", "out of range"),
        ("1e" + "9" * 5000, "out of range"),
        ("1e-" + "9" * 5000, "out of range"),
        ("0e-999999", Decimal("0.00")),
        ("-0.00", Decimal("0.00")),
        ("1e0000000000000000000000002", Decimal("100.00")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_decimal_holds_the_number_or_the_record_is_quarantined(
    form: str, text: str, held: Decimal | str
) -> None:
    others = ["1.5", "0.25"]
    assert read(form, "decimal(38,2)", others[0], text, others[1]) == [
        Decimal("1.50"),
        held,
        Decimal("0.25"),
    ]


@pytest.mark.parametrize("form", TEXTS)
def test_a_number_that_passes_128_bits_on_the_way_to_its_scale_is_not_another_one(
    form: str,
) -> None:
    assert read(form, "decimal(38,38)", "4", "0.5", "1") == [
        "out of range",
        Decimal("0.5" + "0" * 37),
        "out of range",
    ]


WHOLE = st.one_of(
    st.integers(-(10**45), 10**45),
    st.integers(30, 300).map(lambda bits: 2**bits),
    st.integers(30, 300).map(lambda bits: 1 - 2**bits),
    st.integers(0, 45).map(lambda digits: 10**digits - 1),
)
DIGITS = st.text("0123456789", max_size=50)


def spelt(whole: int, part: str, zeros: int, exponent: int | None) -> str:
    """As JSON has numbers."""
    point = f".{part}{'0' * zeros}" if part or zeros else ""
    return f"{whole}{point}" + ("" if exponent is None else f"e{exponent}")


NUMBERS = st.builds(
    spelt,
    st.one_of(WHOLE, st.integers(-1000, 1000), st.just(0)),
    st.one_of(st.just(""), DIGITS),
    st.sampled_from([0, 0, 1, 40, 4000]),
    st.one_of(
        st.none(),
        st.integers(-90, 90),
        st.sampled_from([10**6, -(10**6), 2**31, -(2**31), 2**63, -(2**64), 10**9, -(10**9)]),
    ),
)
SHAPES = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


@given(st.sampled_from(TEXTS), SHAPES, st.lists(NUMBERS, min_size=1, max_size=6))
@settings(max_examples=examples(70))
def test_decimals_are_those_of_python(form: str, shape: tuple[int, int], texts: list[str]) -> None:
    expected = [decimal_of(text, *shape) for text in texts]
    found = read(form, "decimal({},{})".format(*shape), *texts)
    assert [str(one) for one in found] == [str(one) for one in expected]


@given(SHAPES, st.data())
@settings(max_examples=examples(50))
def test_numbers_that_fit_are_kept(shape: tuple[int, int], data: Any) -> None:
    precision, scale = shape
    unscaled = data.draw(st.integers(1 - 10**precision, 10**precision - 1))
    number = Decimal(unscaled).scaleb(-scale, EXACT)
    for form in TEXTS:
        assert read(form, f"decimal({precision},{scale})", f"{number:f}") == [number]


@pytest.mark.parametrize("kind", ["int", "bigint"])
@given(st.sampled_from(("json", "csv", "regex")), st.lists(WHOLE, min_size=1, max_size=6))
@settings(max_examples=examples(40))
def test_whole_numbers_are_those_of_python(kind: str, form: str, numbers: list[int]) -> None:
    most = 2**31 if kind == "int" else 2**63
    expected = [each if -most <= each < most else "out of range" for each in numbers]
    assert read(form, kind, *map(str, numbers)) == expected
    assert read(form, kind, str(most - 1), str(-most), str(most), str(-most - 1)) == [
        most - 1,
        -most,
        "out of range",
        "out of range",
    ]


@given(st.sampled_from(("json", "csv", "regex")), st.lists(NUMBERS, min_size=1, max_size=6))
@settings(max_examples=examples(50))
def test_doubles_are_those_of_python(form: str, texts: list[str]) -> None:
    expected = ["out of range" if math.isinf(float(t)) else float(t) for t in texts]
    assert list(map(repr, read(form, "double", *texts))) == list(map(repr, expected))


@pytest.mark.parametrize("kind", ["decimal(38,2)", "double", "int", "bigint"])
@pytest.mark.parametrize(
    "text", ["", ".", "-", "+", "e5", "1e", "1e+", "1.2.3", "1_0", " 1", "1 ", "0x10", "\u0663"]
)
def test_what_is_no_number_is_none(kind: str, text: str) -> None:
    found = outcomes(parser("regex", kind), [f"x{text}"])
    assert [each[:2] for each in found] == [("bad", "wrong type")]
    if text:
        assert [each[:2] for each in outcomes(parser("regex", kind), [text])] == [
            ("bad", "wrong type")
        ]


@pytest.mark.parametrize("kind", ["decimal(38,2)", "double", "int"])
def test_a_long_text_of_digits_takes_no_longer_than_it_is_long(kind: str) -> None:
    """By a pattern that tries each place for the point this would take hours."""
    for text in ("1" * 1_000_000 + "x", "1" * 1_000_000, "0." + "0" * 1_000_000 + "1e1000000000"):
        for form in ("csv", "quoted json"):
            assert outcomes(parser(form, kind), [value_of(form, text)])[0][0] in ("bad", "good")


def avro_parser(kind: str, schema: Any) -> Parser:
    record = {"type": "record", "name": "R", "fields": [{"name": "n", "type": schema}]}
    return parser_of("avro", options={"avro_schema": json.dumps(record)}, n=kind)


def bytes_of(unscaled: int) -> bytes:
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


@given(SHAPES, SHAPES, WHOLE)
@settings(max_examples=examples(50))
def test_avro_decimals_are_what_their_bytes_say(
    written: tuple[int, int], held: tuple[int, int], unscaled: int
) -> None:
    """A writer may have put more digits there than its schema says."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": written[0], "scale": written[1]}
    reader = avro_parser("decimal({},{})".format(*held), ["null", kind])
    out = io.BytesIO()
    plain = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "bytes"]}]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), {"n": bytes_of(unscaled)})
    ((state, *rest),) = outcomes(reader, [out.getvalue()])
    expected = decimal_of(f"{unscaled}e{-written[1]}", *held)
    if isinstance(expected, str):
        assert (state, rest[0]) == ("bad", expected)
    else:
        assert state == "good"
        assert str(rest[0]["n"]) == str(expected)


def test_an_avro_decimal_of_a_megabyte_is_quarantined() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    reader = avro_parser("decimal(9,2)", kind)
    size = 1_000_000
    length = bytes([2 * size & 127 | 128, 2 * size >> 7 & 127 | 128, 2 * size >> 14])
    ((state, reason, detail),) = outcomes(reader, [length + b"\x7f" * size])
    assert (state, reason) == ("bad", "out of range")
    assert detail == "column n: 7999999 bits does not fit decimal(9,2)"


def test_a_fixed_avro_decimal_is_read_too() -> None:
    kind = {
        "type": "fixed",
        "name": "Amount",
        "size": 3,
        "logicalType": "decimal",
        "precision": 4,
        "scale": 2,
    }
    found = outcomes(avro_parser("decimal(6,3)", kind), [b"\x01\xe2\x40", b"\xff\xff\xff"])
    assert [one[1]["n"] if one[0] == "good" else one[1] for one in found] == [
        "out of range",
        Decimal("-0.010"),
    ]
    found = outcomes(avro_parser("decimal(7,2)", kind), [b"\x01\xe2\x40"])
    assert found[0][1]["n"] == Decimal("1234.56")


def varint(number: int) -> bytes:
    """Of any size, as Avro writes a whole number."""
    left = (number << 1) ^ (number >> 1000)
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


@pytest.mark.parametrize("kind", ["int", "bigint"])
@given(WHOLE, st.text(max_size=9))
@settings(max_examples=examples(40))
def test_whole_numbers_of_avro_are_never_cut_to_64_bits(kind: str, number: int, text: str) -> None:
    inner = {"type": "array", "items": {"type": "map", "values": ["null", "string", "T"]}}
    tree = {"type": "record", "name": "T", "fields": [{"name": "t", "type": inner}]}
    fields = [
        {"name": "s", "type": "string"},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 9}},
        {"name": "t", "type": tree},
        {"name": "n", "type": ["null", "long"]},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    reader = parser_of("avro", options={"avro_schema": json.dumps(schema)}, n=kind)
    out = io.BytesIO()
    leaf: dict[str, Any] = {"t": [{text: {"t": []}, "x": "\u4e2d" * 9, "y": None}]}
    datum = {"s": "\u4e2d\u6587" * 5, "f": b"\xff" * 9, "t": leaf, "n": None}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    most = 2**31 if kind == "int" else 2**63
    for each in (number, most, -most - 1, most - 1, -most, 2**64, 2**63 + 5):
        ((state, *rest),) = outcomes(reader, [out.getvalue()[:-1] + b"\2" + varint(each)])
        if -most <= each < most:
            assert (state, rest[0]["n"]) == ("good", each)
        else:
            is_long = -(2**63) <= each < 2**63
            assert (state, rest[0]) == ("bad", "out of range" if is_long else "not Avro")


def test_a_number_that_never_ends_is_no_avro() -> None:
    reader = avro_parser("bigint", "long")
    for datum in (b"\x80" * 9 + b"\x02", b"\xff" * 1_000_000 + b"\x01", b"\x80" * 12 + b"\0"):
        assert outcomes(reader, [datum])[0][:2] == ("bad", "not Avro")
