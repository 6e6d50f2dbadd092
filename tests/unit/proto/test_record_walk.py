"""What a producer's records are refused for, of both walks: the compiled one and its twin."""

import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from strandline_proto import record_walk
from strandline_proto.batch import HEADER_SIZE, Compression, build_batch, uncompressed
from strandline_proto.batch import check_batch as check
from strandline_proto.record_walk import INT64_MAX, INT64_MIN, Answer, Fault, walk_in_python
from support.record_bytes import Fields, record

WALKS = [
    pytest.param(walk_in_python, id="python"),
    pytest.param(
        record_walk.walk,
        id="compiled",
        marks=pytest.mark.skipif(not record_walk.IS_COMPILED, reason="no compiled walk here"),
    ),
]


@pytest.fixture(params=WALKS)
def walk(request: pytest.FixtureRequest) -> Any:
    def walk(records: bytes, count: int = 1, **asked: Any) -> Answer:
        wanted = {
            "base": 0,
            "earliest": INT64_MIN,
            "latest": INT64_MAX,
            "needs_key": False,
            "at": 0,
        }
        assert set(asked) <= set(wanted)
        w = wanted | asked
        found: Answer = request.param(
            records, w["at"], count, w["base"], w["earliest"], w["latest"], w["needs_key"]
        )
        return found

    return walk


def test_the_walk_is_compiled_where_there_is_a_compiler() -> None:
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which("cc") is None or not headers.is_file():
        pytest.skip("no C compiler or no Python headers: brokers check records in Python here")
    assert record_walk.IS_COMPILED, "run `make setup`: the package's C file is not compiled"


@pytest.mark.parametrize("codec", list(Compression))
def test_what_the_client_builds_is_sound(walk: Any, codec: Compression) -> None:
    pairs = [(None if i % 3 else b"k" * i, None if i % 5 else b"v" * i) for i in range(200)]
    batch = build_batch(pairs, timestamp_ms=1234, compression=codec)
    header = check(batch)
    plain = uncompressed(batch, header)
    assert walk(bytes(plain), 200, base=1234, at=HEADER_SIZE) == (0, 200, 0, 1234)


def test_fields_may_be_absent_or_empty(walk: Any) -> None:
    headers = ((b"", None), ("größe €𝄞".encode(), b""))
    records = record(Fields(key=None, value=None)) + record(Fields(1, -7, b"", b"", headers))
    assert walk(records, 2, base=10) == (0, 2, 0, 10)


LIES = {
    "attributes": (Fields(attributes=0x80), Fault.ATTRIBUTES, 0x80),
    "length beyond the end": (Fields(length=100), Fault.LENGTH, 100),
    "negative length": (Fields(length=-1), Fault.LENGTH, -1),
    "shorter than its fields": (Fields(length=5), Fault.NUMBER, 6),
    "empty": (Fields(length=0), Fault.NUMBER, 1),
    "longer than its fields": (Fields(surplus=b"???"), Fault.SURPLUS, 3),
    "offset delta": (Fields(offset_delta=1), Fault.OFFSET_DELTA, 1),
    "negative offset delta": (Fields(offset_delta=-1), Fault.OFFSET_DELTA, -1),
    "offset delta of 33 bits": (Fields(offset_delta=1 << 32), Fault.NUMBER, 3),
    "key length": (Fields(key_length=2**31 - 1), Fault.KEY_LENGTH, 2**31 - 1),
    "key length of 63 bits": (Fields(key_length=2**63 - 8), Fault.NUMBER, 4),
    "negative key length": (Fields(key_length=-2), Fault.KEY_LENGTH, -2),
    "value length": (Fields(value_length=4), Fault.VALUE_LENGTH, 4),
    "header count": (Fields(header_count=3), Fault.HEADER_COUNT, 3),
    "negative header count": (Fields(header_count=-1), Fault.HEADER_COUNT, -1),
    "header key": (
        Fields(headers=((b"h", b"x"),), header_key_length=-1),
        Fault.HEADER_KEY_LENGTH,
        -1,
    ),
    "header value": (
        Fields(headers=((b"h", b"x"),), header_value_length=9),
        Fault.HEADER_VALUE_LENGTH,
        9,
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_field_that_lies_is_named(walk: Any, name: str) -> None:
    fields, fault, value = LIES[name]
    assert walk(record(fields))[:3] == (fault, 0, value)


@pytest.mark.parametrize(
    "text",
    [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"a\xc3("],
)
def test_a_headers_key_is_text(walk: Any, text: bytes) -> None:
    fault, index, at, _ = walk(record(Fields(headers=((text, b""),))))
    assert (fault, index, at) == (Fault.HEADER_KEY_TEXT, 0, 10)


def test_a_count_is_exactly_of_the_records_that_are_there(walk: Any) -> None:
    one = record(Fields())
    assert walk(one, 3)[:3] == (Fault.MISSING, 1, 0)
    assert walk(one + record(Fields(1)), 1)[:3] == (Fault.TRAILING, 1, len(one))
    assert walk(b"", 1)[:3] == (Fault.MISSING, 0, 0)


def test_a_number_has_no_more_bytes_than_its_kind_needs(walk: Any) -> None:
    for lead in range(4):
        overlong = b"\x80" * lead + b"\x00"
        body = b"\x00\x00" + overlong + b"\x01\x01\x00"
        assert walk(bytes([2 * len(body)]) + body)[0] == Fault.SOUND
    body = b"\x00\x00" + b"\x80" * 5 + b"\x00" + b"\x01\x01\x00"
    assert walk(bytes([2 * len(body)]) + body)[:3] == (Fault.NUMBER, 0, 3)
    body = b"\x00" + b"\x80" * 10 + b"\x00" + b"\x00\x01\x01\x00"
    assert walk(bytes([2 * len(body)]) + body)[:3] == (Fault.NUMBER, 0, 2)


def test_times_lie_within_the_bounds_or_are_none(walk: Any) -> None:
    bounds = {"base": 100, "earliest": 90, "latest": 110}
    for delta in (-10, 0, 10, -101):
        assert walk(record(Fields(0, delta)), **bounds) == (0, 1, 0, 100 + delta)
    for delta in (-11, 11):
        assert walk(record(Fields(0, delta)), **bounds)[:3] == (Fault.TIMESTAMP, 0, 100 + delta)


def test_a_time_is_a_number_of_64_bits(walk: Any) -> None:
    assert walk(record(Fields(0, INT64_MAX))) == (0, 1, 0, INT64_MAX)
    assert walk(record(Fields(0, INT64_MIN)), base=-1)[:3] == (Fault.TIMESTAMP_DELTA, 0, INT64_MIN)
    assert walk(record(Fields(0, 1)), base=INT64_MAX)[:3] == (Fault.TIMESTAMP_DELTA, 0, 1)


def test_a_key_is_needed_where_it_is_asked_for(walk: Any) -> None:
    records = record(Fields()) + record(Fields(1, key=None))
    assert walk(records, 2, needs_key=True)[:2] == (Fault.NO_KEY, 1)
    assert walk(records, 2)[0] == Fault.SOUND
    assert walk(record(Fields(key=b"")), needs_key=True)[0] == Fault.SOUND


def test_a_position_outside_the_bytes_is_an_error_of_the_caller(walk: Any) -> None:
    for at in (-1, 4):
        with pytest.raises(ValueError, match=f"byte {at} is not within"):
            walk(b"abc", at=at)
