"""Records as pages show them: cut, with their sizes, whatever their bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_console.answers import Records
from strandline_console.records.reader import NotReadable
from strandline_console.records.shown import (
    BYTES_MAX,
    HEX_MAX,
    TEXT_MAX,
    Shown,
    payload,
    show_batches,
)
from strandline_console.serving.app import build_app
from strandline_console.serving.record_routes import record_routes
from strandline_proto.batch import build_batch, read_header
from strandline_proto.decompression import Compression
from support.asgi import AsgiClient


@given(data=st.binary(max_size=200))
def test_a_small_payload_is_shown_whole(data: bytes) -> None:
    found = payload(data)
    assert found is not None
    assert (found.size, found.hex, found.truncated) == (len(data), data.hex(), False)
    if found.text is not None:
        assert found.text.encode() == data


def test_a_large_text_is_cut_between_characters() -> None:
    found = payload("\u20ac".encode() * TEXT_MAX)
    assert found is not None
    assert (found.size, found.truncated) == (3 * TEXT_MAX, True)
    assert found.text == "\u20ac" * (TEXT_MAX // 3)
    assert len(found.hex) == 2 * HEX_MAX


def test_ten_megabytes_are_named_by_their_size() -> None:
    found = payload(b"\xff" * (10 << 20))
    assert found is not None
    assert (found.size, found.text, found.truncated) == (10 << 20, None, True)
    assert found.hex == "ff" * HEX_MAX


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1}', True),
        (b" [1, 2]", True),
        (b"{a}", False),
        (b"12", False),
        (b"[" * 60_000, False),
        (b"", False),
        (b"\xff", False),
    ],
)
def test_json_is_told_from_text(data: bytes, expected: bool) -> None:
    found = payload(data)
    assert found is not None
    assert found.json is expected


def test_no_value_is_not_an_empty_one() -> None:
    assert payload(None) is None
    empty = payload(b"")
    assert empty is not None
    assert empty.text == ""


def batch_at(offset: int, *values: bytes | None, **options: Any) -> bytes:
    made = bytearray(build_batch([(b"k", v) for v in values], timestamp_ms=5, **options))
    made[0:8] = offset.to_bytes(8, "big")
    return bytes(made)


def test_records_from_within_a_batch_up_to_a_limit() -> None:
    data = batch_at(10, b"a", b"b", None) + batch_at(13, b"d", compression=Compression.ZSTD)
    shown = Shown()
    assert show_batches(data, first=11, limit=3, shown=shown)
    assert [(r.offset, r.batch, r.value and r.value.text) for r in shown.records] == [
        (11, 0, "b"),
        (12, 0, None),
        (13, 1, "d"),
    ]
    assert [batch.codec for batch in shown.batches] == ["none", "zstd"]
    assert shown.next_offset == 14
    again = Shown()
    assert show_batches(data, first=11, limit=1, shown=again)
    assert again.next_offset == 12


def test_the_time_of_the_leader_stands_for_that_of_the_record() -> None:
    made = batch_at(0, b"a")
    header = read_header(made)
    logged = made[:21] + (header.attributes | 8).to_bytes(2, "big") + made[23:]
    shown = Shown()
    show_batches(logged, first=0, limit=5, shown=shown)
    assert shown.batches[0].timestamp_type == "append"


def test_a_damaged_batch_is_named_and_the_next_one_is_shown() -> None:
    damaged = bytearray(batch_at(0, b"a" * 50))
    damaged[61:80] = b"\xff" * 19
    shown = Shown()
    show_batches(bytes(damaged) + batch_at(1, b"b"), first=0, limit=5, shown=shown)
    assert shown.damage is not None
    assert "batch at 0" in shown.damage
    assert [record.offset for record in shown.records] == [1]


def test_an_answer_of_many_large_values_is_bounded() -> None:
    data = b"".join(batch_at(n, b"x" * TEXT_MAX) for n in range(200))
    shown = Shown()
    show_batches(data, first=0, limit=500, shown=shown)
    assert len(shown.records) == 200
    text = sum(len(r.value.text or "") for r in shown.records if r.value is not None)
    assert text <= BYTES_MAX + 200 * 256


class Reader:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def read(self, topic: str, partition: int, **options: Any) -> Records:
        if topic == "missing":
            raise NotReadable(404, "there is no topic 'missing'")
        self.asked.append((topic, partition, options))
        return Records(
            topic=topic,
            partition=partition,
            log_start=0,
            high_watermark=0,
            first_offset=0,
            next_offset=0,
            batches=[],
            records=[],
        )


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("offset=7", {"offset": 7, "time_ms": None, "limit": 50}),
        ("time=7&limit=2", {"offset": None, "time_ms": 7, "limit": 2}),
        ("", {"offset": None, "time_ms": None, "limit": 50}),
    ],
)
async def test_a_page_asks_by_offset_or_time(query: str, options: dict[str, Any]) -> None:
    reader = Reader()
    client = AsgiClient(build_app(record_routes(reader), loopback=True))
    answer = await client.get(f"/api/records?topic=t&partition=3&{query}")
    assert answer.status == 200
    assert json.loads(answer.body)["topic"] == "t"
    assert reader.asked == [("t", 3, options)]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("topic=missing&partition=0", 404),
        ("topic=t", 400),
        ("topic=t&partition=-1", 400),
        ("topic=t&partition=0&offset=1&time=1", 400),
        ("topic=t&partition=0&limit=501", 400),
    ],
)
async def test_a_wrong_page_is_refused(query: str, status: int) -> None:
    client = AsgiClient(build_app(record_routes(Reader()), loopback=True))
    answer = await client.get(f"/api/records?{query}")
    assert (answer.status, list(answer.json)) == (status, ["error"])
