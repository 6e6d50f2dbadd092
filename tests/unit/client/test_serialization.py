"""Ready-made formats: what they write they read, and what they cannot convert they name."""

from __future__ import annotations

import dataclasses
import datetime
import sys
import typing
from typing import Any

import msgspec
import pytest

from strandline._producer.serializing import Serializing
from strandline.errors import ConfigurationError, SerializationError
from strandline.serialization import Avro, Bytes, Format, Json, Protobuf, Text, format_or_function
from strandline.types import Record
from strandline_proto.v1 import metadata_pb2


class Line(msgspec.Struct):
    price: float


class Order(msgspec.Struct):
    id: int
    lines: list[Line] = []


@dataclasses.dataclass
class Plain:
    id: int


class Typed(typing.TypedDict):
    id: int


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}
DAY = datetime.date(2026, 1, 2)
MESSAGE = metadata_pb2.TopicRef(name="orders")


@pytest.mark.parametrize(
    ("form", "value", "data"),
    [
        (Bytes(), b"\xff", b"\xff"),
        (Text(), "é", "é".encode()),
        (Text("latin-1"), "é", b"\xe9"),
        (Json(), {"a": [1, None, "x"]}, b'{"a":[1,null,"x"]}'),
        (Json(), None, b"null"),
        (Json(Order), Order(7, [Line(1.5)]), b'{"id":7,"lines":[{"price":1.5}]}'),
        (Json(list[int]), [1, 2], b"[1,2]"),
        (Json(Plain), Plain(1), b'{"id":1}'),
        (Json(Typed), {"id": 1}, b'{"id":1}'),
        (Json(int | str), "x", b'"x"'),
        (Json(float), 1.5, b"1.5"),
        (Avro(AVRO), {"id": 1, "note": "x", "day": DAY}, None),
        (Avro({"type": "string"}), "x", b"\x02x"),
        (Avro('{"type": "long"}'), 1, b"\x02"),
        (Protobuf(metadata_pb2.TopicRef), MESSAGE, MESSAGE.SerializeToString()),
    ],
)
def test_a_format_reads_what_it_writes(form: Format[Any], value: Any, data: bytes | None) -> None:
    written = form.serialize(value)
    assert data is None or written == data
    assert form.deserialize(written) == value


@pytest.mark.parametrize(
    ("form", "value", "why"),
    [
        (Bytes(), "a", "'a' is str, not bytes"),
        (Bytes(), 5, "5 is int, not bytes"),
        (Text(), b"a", "b'a' is bytes, not str"),
        (Text("ascii"), "é", "ordinal"),
        (Json(Order), {"id": 7}, "is dict, not Order"),
        (Json(Order), Line(1.0), "is Line, not Order"),
        (Json(list[int]), {1}, "is set, not list"),
        (Json(Typed), 5, "5 is int, not Typed"),
        (Json(), object(), "object"),
        (Avro(AVRO), {"id": "x", "note": None, "day": DAY}, r"Order\.id is <x> .* expected long"),
        (Avro(AVRO), {"id": 1.5, "note": None, "day": DAY}, r"Order\.id is <1\.5>"),
        (Avro(AVRO), {"note": None, "day": DAY}, r"Order\.id"),
        (Avro(AVRO), {"id": 1, "day": DAY, "more": 1}, "more"),
        (Avro(AVRO), 5, "5"),
        (Protobuf(metadata_pb2.TopicRef), {"name": "x"}, "is dict, not TopicRef"),
        (Protobuf(metadata_pb2.TopicRef), metadata_pb2.MetadataRequest(), "not TopicRef"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(form: Format[Any], value: Any, why: str) -> None:
    with pytest.raises(SerializationError, match=why) as caught:
        Serializing(None, form).value("orders", 3, value)
    error = caught.value
    assert str(error).startswith("orders:3: the value does not serialize, and the record was not")
    assert (error.topic, error.partition, error.field) == ("orders", 3, "value")
    assert error.__cause__ is not None


@pytest.mark.parametrize(
    ("form", "data", "why"),
    [
        (Text(), b"\xff", "utf-8"),
        (Json(Order), b'{"id": "7"}', r"Expected `int`, got `str` - at `\$\.id`"),
        (Json(Order), b'{"id": 7, "lines": [{"price": "x"}]}', r"at `\$\.lines\[0\]\.price`"),
        (Json(Order), b'{"id": 7', "truncated"),
        (Json(), b"\0\0\0\0\5{}", "zero byte, as records of a schema registry"),
        (Avro(AVRO), b"", "EOFError"),
        (Avro(AVRO), b"\x02\x09", "not of the schema"),
        (Avro({"type": "long"}), b"\x02rest", "4 bytes follow the datum"),
        (Avro({"type": "long"}), b"\0\0\0\0\5x", "schema registry"),
        (Protobuf(metadata_pb2.TopicRef), b"\xff", "the bytes are no TopicRef"),
    ],
)
def test_bytes_that_do_not_convert_are_explained(form: Format[Any], data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        form.deserialize(data)


def test_avro_resolves_the_schema_of_the_writer() -> None:
    old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    written = Avro(old).serialize({"id": 5})
    new = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": "string", "default": "-"},
        ],
    }
    assert Avro(new, writer_schema=old).deserialize(written) == {"id": 5, "note": "-"}


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [(Json, "msgspec", "json"), (lambda: Avro({"type": "long"}), "fastavro", "avro")],
)
def test_a_missing_library_names_its_extra(
    make: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"{module}.*pip install 'strandline\[{extra}\]'"):
        make()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Text("utf-99"), "encoding='utf-99'"),
        (lambda: Json(lambda: 1), "kind="),
        (lambda: Avro({"type": "nothing"}), "schema is no Avro schema"),
        (lambda: Avro("{"), "schema is no Avro schema"),
        (lambda: Avro({"type": "long"}, writer_schema=[5]), "writer_schema is no Avro schema"),
        (lambda: Protobuf(dict), "not a class of messages"),  # type: ignore[type-var]
        (lambda: Protobuf(MESSAGE), "not a class of messages"),  # type: ignore[arg-type]
        (lambda: format_or_function("value_serializer", 5), "value_serializer=5 is neither"),
        (lambda: format_or_function("value_serializer", "avro"), "'bytes', 'str' and 'json'"),
        (lambda: format_or_function("key_serializer", Json), r"write Json\(\)"),
    ],
)
def test_a_wrong_format_is_refused_where_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


@pytest.mark.parametrize(
    ("given", "value", "data"),
    [(str, "a", b"a"), ("str", "a", b"a"), (bytes, b"a", b"a"), ("json", [1], b"[1]")],
)
def test_names_and_types_mean_formats(given: Any, value: Any, data: bytes) -> None:
    assert Serializing(None, given).value("t", None, value) == data
    made = format_or_function("value_deserializer", given)
    assert isinstance(made, Format)
    assert made.deserialize(data) == value


def test_a_function_serializes_and_none_is_a_tombstone() -> None:
    calls: list[object] = []

    def serialize(value: int) -> bytes:
        calls.append(value)
        return b"%d" % value

    serializing = Serializing(serialize, None)
    assert serializing
    assert serializing.key("t", None, 5) == b"5"
    assert serializing.key("t", None, None) is None
    assert serializing.value("t", None, bytearray(b"v")) == b"v"
    assert calls == [5]
    assert not Serializing(None, None)
    with pytest.raises(TypeError, match="encode it"):
        serializing.value("t", None, "text")


async def _later(value: object) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("serialize", "why"),
    [
        (lambda value: str(value), "returned str: not bytes"),
        (lambda value: None, "returned NoneType: not bytes"),
        (_later, "returned coroutine: a serializer is a plain function"),
        (lambda value: 1 / 0, "ZeroDivisionError"),
        (lambda value: [][0], "IndexError"),
    ],
)
def test_a_faulty_function_is_named_with_topic_and_field(serialize: Any, why: str) -> None:
    serializing = Serializing(serialize, None)
    with pytest.raises(SerializationError, match=rf"^orders: the key does not serialize.*{why}"):
        serializing.key("orders", None, 5)


def test_the_items_of_send_many_are_serialized() -> None:
    serializing = Serializing("str", "json")
    given = [1, ("k", {"a": 1}), Record({"b": 2}, "r", partition=3), None, ("k", None)]
    assert list(serializing.items("t", None, given)) == [
        b"1",
        Record(b'{"a":1}', b"k"),
        Record(b'{"b":2}', b"r", partition=3),
        Record(),
        Record(None, b"k"),
    ]
    with pytest.raises(SerializationError, match=r"^t:3: the key"):
        list(serializing.items("t", None, [Record(1, 5, partition=3)]))
