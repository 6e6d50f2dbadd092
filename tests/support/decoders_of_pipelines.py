"""Decoders of a pipeline: its file, the values of records, and what gold says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import OptionError, TableError
from strandline_spark.examples import text_of
from strandline_spark.gold.account import from_metadata
from strandline_spark.parsing.avro.datums import AvroDecoder
from strandline_spark.parsing.checks import check_settings
from strandline_spark.parsing.framing import NoHeaderError, message_place
from strandline_spark.parsing.json_rows import JsonRows
from strandline_spark.parsing.parts.paths import path_of
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.protobuf.descriptors import DescriptorProblem, descriptor_text
from strandline_spark.parsing.protobuf.messages import ProtobufDecoder
from strandline_spark.parsing.settings import POSITION, RECORD_TIME, ParseSettings
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.lines import Lines
from strandline_spark.state.account import from_metadata as state_from_metadata
from support.decoders import Decoder
from support.descriptors import descriptor_set
from support.parsing import batch_of, columns_of, parser_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_spark.parsing import Parser

AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
    }
)
PARTS: Final = {
    "position": replace(column_type("int"), source=POSITION),
    "url": replace(column_type("string"), field="page.url"),
    "page": column_type("json"),
    "n": replace(column_type("bigint"), field="items.n"),
    "item": replace(column_type("struct<n:bigint,p:decimal(5,2)>"), field="items"),
    "m": column_type("map<string,array<date>>"),
}
NEWER: Final = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "s", "type": ["null", "string"]}, {"name": "n", "type": "long"}],
    }
)
MESSAGES: Final = descriptor_set(
    m="""
syntax = "proto3";
message Before {}
message M { int64 n = 1; string s = 2; repeated int32 r = 3; M m = 4; }
"""
)
DESCRIPTOR: Final = descriptor_text(MESSAGES, "M")
GOLD: Final = json.dumps(
    {
        "format": 1,
        "number": 3,
        "watermark": 1_700_000_000_000_000,
        "ends": {"t": {"0": 7}},
        "open_from": None,
        "late_after": [],
        "previous": None,
        "silver_id": "s",
        "silver_version": 3,
        "rows": 4,
        "late": 0,
        "definition": "d",
    }
).encode()


def _value(parser: Parser) -> Callable[[bytes], Any]:
    """Of a record between two others, which are what they are whatever it is."""
    sound = b'{"n": 1, "s": "x"}'

    def call(data: bytes) -> Any:
        parsed = parser.parse(batch_of([sound, data, sound]))
        good = set(parsed.good_rows.to_pylist())
        assert len(good) + len(parsed.bad_rows) + len(parsed.tombstone_rows) == 3
        assert {0, 2} <= set(parsed.good_rows.to_pylist() + parsed.bad_rows.to_pylist())
        return parsed

    return call


def _schema(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    columns = columns_of(n="bigint", s="string")
    check_settings(ParseSettings("avro", columns, RECORD_TIME, avro_schema=text))


def _descriptor(data: bytes) -> None:
    text = descriptor_text(data, "M")
    columns = columns_of(n="bigint", s="string")
    check_settings(ParseSettings("protobuf", columns, RECORD_TIME, descriptor=text, message="M"))


STATE: Final = json.dumps(
    {
        "format": 1,
        "number": 3,
        "ends": {"t": {"0": 7}},
        "silver_id": "s",
        "silver_version": 3,
        "rows": 4,
        "upserted": 2,
        "deleted": 1,
        "left_out": {"user": 1},
        "definition": "d",
        "graves": None,
    }
).encode()
DECODERS: Final = (
    Decoder(
        "spark.pipeline.lines",
        tuple(text_of(name).encode() for name in ("access", "flights")),
        lambda data: Lines(data.decode("utf-8", "replace")).of(("gold", 1, "sql")),
        (RecursionError,),
        positions=60,
    ),
    Decoder(
        "spark.pipeline.config",
        tuple(text_of(name).encode() for name in ("access", "flights")),
        lambda data: parse_pipeline(data.decode("utf-8", "replace"), "/p/pipeline.toml"),
        (OptionError,),
        positions=60,
    ),
    Decoder(
        "spark.gold.account",
        (GOLD,),
        lambda data: from_metadata(data.decode("utf-8", "replace"), "x", 3),
        (TableError,),
    ),
    Decoder(
        "spark.state.account",
        (STATE,),
        lambda data: state_from_metadata(data.decode("utf-8", "replace"), "x", 3),
        (TableError,),
    ),
    Decoder(
        "spark.parsing.framing",
        (b"\0\0\0\0\7\4\2\2", b"\0\0\0\0\7\0"),
        message_place,
        (NoHeaderError,),
    ),
    Decoder(
        "spark.parsing.json",
        (b'{"n": 5, "s": "y", "more": [1, {"a": null}]}',),
        _value(parser_of("json", n="bigint", s="string")),
    ),
    Decoder(
        "spark.parsing.json_parts",
        (
            b'{"page": {"url": "u"}, "items": [{"n": 1, "p": 1.5}, null],'
            b' "m": {"a": ["2026-01-01"]}}',
        ),
        _value(parser_of("json", options={"explode": "items"}, **PARTS)),
    ),
    Decoder(
        "spark.parsing.paths",
        (b"$.page['a.b'][0].c", b"page.items[-1]"),
        lambda data: path_of(data.decode("utf-8", "replace")),
        (OptionError,),
    ),
    Decoder(
        "spark.parsing.types",
        (b"struct<a:int,`b`:map<string,array<decimal(5,2)>>>",),
        lambda data: column_type(data.decode("utf-8", "replace")),
        (OptionError,),
    ),
    Decoder("spark.parsing.avro_schema", (AVRO.encode(),), _schema, (OptionError,)),
    Decoder(
        "spark.parsing.avro",
        (b"\x0a\x02\x02y", b"\x0a\x00"),
        _value(parser_of("avro", options={"avro_schema": AVRO}, n="bigint", s="string")),
    ),
    Decoder(
        "spark.parsing.avro_registry",
        (b"\0\0\0\0\7\x0a\x02\x02y", b"\0\0\0\0\x08\x02\x02y\x0a"),
        _value(
            parser_of("avro", options={"schemas": {"7": AVRO, "8": NEWER}}, n="bigint", s="string")
        ),
    ),
    Decoder(
        "spark.parsing.protobuf",
        (b"\0\0\0\0\7\2\2\x08\5\x12\x01y\x1a\x02\1\2\x22\2\x08\1",),
        _value(
            parser_of(
                "protobuf",
                options={"message": "M", "descriptor": DESCRIPTOR, "registry": "header"},
                n="bigint",
                s="string",
            )
        ),
    ),
    Decoder("spark.parsing.descriptor", (MESSAGES,), _descriptor, (OptionError, DescriptorProblem)),
)
READ: Final = (JsonRows, AvroDecoder, ProtobufDecoder)
"""What reads the values, by way of parsers."""
