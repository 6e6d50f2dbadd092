"""A checked record tells its key and value, and shows any damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_chaos.payload import CorruptPayload, decode, encode

numbers = st.integers(min_value=0, max_value=10**12)


@given(key=numbers, value=numbers, size=st.integers(min_value=0, max_value=500))
def test_what_goes_in_comes_out(key: int, value: int, size: int) -> None:
    payload = encode(key, value, size)
    assert len(payload) >= size
    assert decode(payload) == (key, value)


@given(data=st.data(), key=numbers, value=numbers)
def test_one_changed_byte_shows(data: st.DataObject, key: int, value: int) -> None:
    payload = bytearray(encode(key, value, 60))
    at = data.draw(st.integers(min_value=0, max_value=len(payload) - 1))
    payload[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises(CorruptPayload):
        decode(bytes(payload))


@pytest.mark.parametrize("payload", [None, b"", b"hello", b"1 2", b"1 2 deadbeef", b"a b c d"])
def test_anything_else_is_corrupt(payload: bytes | None) -> None:
    with pytest.raises(CorruptPayload):
        decode(payload)
