"""Kafka's primitive types: what is read and written, and what is refused."""

import pytest

from strandline_broker.kafka.wire import Cursor, MalformedRequest, Writer


def cursor(data: bytes) -> Cursor:
    return Cursor(memoryview(data))


def test_numbers_are_big_endian() -> None:
    found = cursor(b"\x01\xff\xfe\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x01\x00")
    assert (found.int8(), found.int16(), found.int32(), found.int64()) == (1, -2, 5, 256)
    found.check_end()


@pytest.mark.parametrize(
    ("encoded", "value"),
    [(b"\x00", 0), (b"\x7f", 127), (b"\xac\x02", 300), (b"\xff" * 4 + b"\x0f", (1 << 32) - 1)],
)
def test_varints_are_read_and_written(encoded: bytes, value: int) -> None:
    assert cursor(encoded).uvarint() == value
    out = Writer(compact=True)
    out.uvarint(value)
    assert b"".join(out.buffers()) == encoded


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff" * 9, "more than 32 bits"),
        (b"\x80", "1 bytes are due at byte 1, and 0 are left"),
    ],
)
def test_a_varint_without_an_end_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(MalformedRequest, match=why):
        cursor(data).uvarint()


def test_a_text_has_its_length_before_it() -> None:
    assert cursor(b"\x00\x02hi").text(compact=False) == "hi"
    assert cursor(b"\x03hi").text(compact=True) == "hi"
    assert cursor(b"\xff\xff").string(compact=False) is None
    assert cursor(b"\x00").string(compact=True) is None


@pytest.mark.parametrize("data", [b"\x00\x05hi", b"\xff\xfe", b"\x00\x01\xff", b"\xff\xff"])
def test_a_text_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        cursor(data).text(compact=False)


def test_a_count_beyond_the_end_is_refused_before_anything_is_read() -> None:
    with pytest.raises(MalformedRequest, match="2147483647 elements, and 1 bytes are left"):
        cursor(b"\x7f\xff\xff\xff\x00").count(compact=False)


def test_bytes_behind_the_last_field_are_refused() -> None:
    with pytest.raises(MalformedRequest, match="1 bytes follow"):
        cursor(b"\x00").check_end()


def test_tagged_fields_are_skipped() -> None:
    found = cursor(b"\x02\x00\x01x\x05\x00!")
    found.skip_tags()
    assert found.int8() == ord("!")


def test_long_bytes_are_not_copied() -> None:
    records = memoryview(b"r" * 100)
    out = Writer(compact=True)
    out.int8(1)
    out.view(records)
    out.no_tags()
    buffers = out.buffers()
    assert b"".join(buffers) == b"\x01" + b"\x65" + bytes(records) + b"\x00"
    assert buffers[1] is records
