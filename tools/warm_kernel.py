"""Compile the Spark jobs' kernel once and leave it in numba's cache, so that no first job waits."""

from strandline_proto.batch import build_batch
from strandline_spark.decode import RangeDecoder
from strandline_spark.schema import column_names


def main() -> None:
    records = build_batch([(b"key", b"value")], timestamp_ms=0)
    columns = column_names(include_headers=True, include_batch_meta=True)
    decoder = RangeDecoder("warm", 0, 0, 1, columns=columns)
    rows = sum(batch.num_rows for batch in decoder.decode(records))
    assert rows == 1, rows


if __name__ == "__main__":
    main()
