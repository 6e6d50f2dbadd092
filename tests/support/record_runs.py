"""Records of a batch as bytes, sound ones and such as lie about themselves."""

from hypothesis import strategies as st

from strandline_proto.record_walk import INT64_MAX, INT64_MIN
from support.record_bytes import Fields, record

near = st.sampled_from(
    [-(2**63), -(2**31) - 1, -2, -1, 0, 1, 63, 64, 127, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 8]
)
int64 = st.integers(INT64_MIN, INT64_MAX)
lengths = st.none() | st.none() | st.integers(-3, 20) | near
some_bytes = st.binary(max_size=12)
maybe_bytes = st.none() | some_bytes
times = st.integers(-50, 50) | near | int64


@st.composite
def sound(draw: st.DrawFn, index: int) -> bytes:
    text = st.text(max_size=4).map(str.encode)
    headers = st.lists(st.tuples(text, maybe_bytes), max_size=3).map(tuple)
    return record(
        Fields(
            index, draw(st.integers(-50, 50)), draw(maybe_bytes), draw(maybe_bytes), draw(headers)
        )
    )


@st.composite
def lying(draw: st.DrawFn, index: int) -> bytes:
    headers = st.lists(st.tuples(some_bytes, maybe_bytes), max_size=3).map(tuple)
    return record(
        Fields(
            draw(st.just(index) | near),
            draw(times),
            draw(maybe_bytes),
            draw(maybe_bytes),
            draw(headers),
            length=draw(lengths),
            key_length=draw(lengths),
            value_length=draw(lengths),
            header_count=draw(lengths),
            header_key_length=draw(lengths),
            header_value_length=draw(lengths),
            surplus=draw(st.just(b"") | some_bytes),
        )
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records and how many they are said to be; some lie, some have a bit flipped, some are cut."""
    count = draw(st.integers(0, 6))
    made = [draw(sound(i) if draw(st.integers(0, 7)) else lying(i)) for i in range(count)]
    run = bytearray(b"".join(made))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        if run:
            bit = draw(st.integers(0, 8 * len(run) - 1))
            run[bit // 8] ^= 1 << bit % 8
    if draw(st.integers(0, 9)) == 0:
        del run[draw(st.integers(0, len(run))) :]
    return bytes(run), draw(st.just(count) | st.integers(0, 8) | near)
