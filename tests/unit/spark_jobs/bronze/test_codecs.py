"""Which columns are packed, by what their first values are like."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.bronze.codecs import codec_of_each
from strandline_spark.bronze.columns import FILE_SCHEMA
from strandline_spark.bronze.range_file import RangeFile
from strandline_spark.source.schema import HEADER_TYPE

ROWS = 200
HEX = [random.Random(row).randbytes(400).hex() for row in range(ROWS)]
TEXT = [f"line {row}: the quick brown fox jumps over the lazy dog" * 3 for row in range(ROWS)]


def table(**columns: Any) -> Any:
    return pa.table(columns)


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_what_gets_no_smaller_is_not_packed(kind: Any) -> None:
    found = codec_of_each(table(a=pa.array(HEX, kind), b=pa.array(TEXT, kind)), "snappy")
    assert found == {"a": "none", "b": "snappy"}
    assert codec_of_each(table(a=pa.array(HEX, kind)), "zstd") == {"a": "zstd"}, "half as large"


def test_a_slice_is_looked_at_and_not_what_is_before_it() -> None:
    both = table(a=pa.array(HEX + TEXT, pa.string()))
    assert codec_of_each(both, "snappy") == {"a": "none"}
    assert codec_of_each(both.slice(ROWS), "snappy") == {"a": "snappy"}


def test_of_little_or_nothing_no_column_is_judged() -> None:
    few = table(
        a=pa.array(HEX[:2], pa.string()),
        b=pa.nulls(ROWS, pa.binary())[:2],
        c=pa.array([], pa.string()).take(pa.array([None, None], pa.int32())),
        d=pa.array([1, 2]),
    )
    assert set(codec_of_each(few, "snappy").values()) == {"snappy"}
    assert codec_of_each(few.slice(0, 0), "snappy")["a"] == "snappy"
    assert codec_of_each(pa.schema([("a", pa.string())]).empty_table(), "snappy") == {"a": "snappy"}


def test_each_leaf_of_a_file_has_its_codec(tmp_path: Path) -> None:
    """Also of headers, whose path in Parquet is longer than their name."""
    rows = {field.name: pa.nulls(ROWS, field.type) for field in FILE_SCHEMA}
    rows["offset"] = pa.array(range(ROWS), pa.int64())
    rows["value"] = pa.array(HEX, pa.string()).cast(pa.binary())
    rows["headers"] = pa.array([[{"key": "k", "value": b"v"}]] * ROWS, pa.list_(HEADER_TYPE))
    batch = pa.RecordBatch.from_arrays(
        [rows[field.name].cast(field.type) for field in FILE_SCHEMA], schema=FILE_SCHEMA
    )
    file = RangeFile(str(tmp_path), "f.parquet", FILE_SCHEMA, {"compression": "snappy"})
    file.add(batch)
    assert file.close() > 0
    group = pq.ParquetFile(tmp_path / "f.parquet").metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    found = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    assert found.pop("value") == "UNCOMPRESSED"
    assert "headers.list.element.value" in found
    assert set(found.values()) == {"SNAPPY"}
    assert pq.read_table(tmp_path / "f.parquet").column("value").to_pylist()[7] == HEX[7].encode()
