"""Values of schema registries in a pipeline: the tasks have the schemas, verify and rebuild too."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pytest

from strandline_spark.parsing.protobuf.descriptors import descriptor_text
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.rebuild import Rebuild
from support.descriptors import descriptor_set, message_class
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

AVRO: Final = """
[pipeline]
name = "orders"
topics = ["t"]

[silver]
format = "avro"
event_time = "timestamp"
registry = "header"
schemas = {SCHEMAS}

[silver.columns]
number = "bigint"
note = "string"
"""
PROTOBUF: Final = """
[pipeline]
name = "orders"
topics = ["t"]

[silver]
format = "protobuf"
event_time = "timestamp"
registry = "header"
descriptor = "shop.desc"
message = "shop.Order"

[silver.columns]
number = "bigint"
note = "string"
"""
SHOP: Final = """
syntax = "proto3";
package shop;
message Other {}
message Order { int64 number = 1; optional string note = 2; }
"""
SCHEMAS: Final = {
    7: [{"name": "id", "type": "int"}],
    8: [
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "number", "type": "long", "aliases": ["id"]},
    ],
    9: [{"name": "number", "type": "long"}, {"name": "by", "type": "string"}],
}


def schema(number: int) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": SCHEMAS[number]}


def avro(number: int, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema(number)), value)
    return struct.pack(">bI", 0, number) + out.getvalue()


def avro_pipeline(folder: Path, *numbers: int) -> Pipeline:
    for number in numbers:
        (folder / f"{number}.avsc").write_text(json.dumps(schema(number)))
    reader = folder / "8.avsc"
    named = ", ".join(f'{number} = "{number}.avsc"' for number in numbers)
    text = AVRO.replace("{SCHEMAS}", f"{{ {named} }}\navro_schema = '{reader}'")
    return of_file(text, folder)


def check(pipeline: Pipeline) -> None:
    found = verify_parsed(pipeline, values=True)
    assert all(one.sound and one.differing == 0 for one in found), found


def test_a_schema_that_comes_later_brings_its_records_out_of_quarantine(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    (partition,) = broker.create("t", 1).partitions
    values = [
        avro(7, {"id": 1}),
        avro(9, {"number": 2, "by": "me"}),
        avro(8, {"number": 1 << 40, "note": "x"}),
        None,
        b"{}",
    ]
    partition.append([(None, value) for value in values])
    pipeline = avro_pipeline(tmp_path, 7, 8)
    run_pipeline_once(spark, pipeline, broker.address)
    assert rows_of(pipeline.silver, "offset", "number", "note") == [
        (0, 1, None),
        (2, 1 << 40, "x"),
        (3, None, None),
    ]
    assert rows_of(pipeline.quarantine, "offset", "reason") == [
        (1, "schema id without a schema"),
        (4, "no schema id"),
    ]
    check(pipeline)

    pipeline = avro_pipeline(tmp_path, 7, 8, 9)
    Rebuild(pipeline, lambda line: None, quarantine_only=True).run(spark)
    assert rows_of(pipeline.silver, "offset", "number") == [(0, 1), (1, 2), (2, 1 << 40), (3, None)]
    assert rows_of(pipeline.quarantine, "offset", "reason") == [(4, "no schema id")]
    check(pipeline)


def test_messages_of_a_descriptor_are_parsed_by_the_tasks(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    made = descriptor_set(shop=SHOP)
    (tmp_path / "shop.desc").write_bytes(made)
    order = message_class(made, "shop.Order")
    header = struct.pack(">bI", 0, 7) + b"\2\2"
    (partition,) = broker.create("t", 1).partitions
    values = [
        header + order(number=5, note="x").SerializeToString(),
        header[:-2] + b"\0" + order(number=6).SerializeToString(),
        None,
        header + order(number=7).SerializeToString(),
        header + b"\x08",
    ]
    partition.append([(None, value) for value in values])
    pipeline = of_file(PROTOBUF, tmp_path)
    assert pipeline.parse.descriptor == descriptor_text(made, "shop.Order")
    run_pipeline_once(spark, pipeline, broker.address)
    rows = [(0, 5, "x"), (2, None, None), (3, 7, None)]
    assert rows_of(pipeline.silver, "offset", "number", "note") == rows
    bad = [(1, "another message"), (4, "not Protobuf")]
    assert rows_of(pipeline.quarantine, "offset", "reason") == bad
    check(pipeline)
    Rebuild(pipeline, lambda line: None).run(spark)
    assert rows_of(pipeline.silver, "offset", "number", "note") == rows
    check(pipeline)
