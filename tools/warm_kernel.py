"""Compile the Spark jobs' kernel once and leave it in numba's cache, so that no first job waits."""

from strandline_proto.batch import build_batch
from strandline_spark.decode import RangeDecoder


def main() -> None:
    records = build_batch([(b"key", b"value")], timestamp_ms=0)
    decoder = RangeDecoder("warm", 0, 0, 1, include_headers=True)
    rows = sum(batch.num_rows for batch in decoder.decode(records))
    assert rows == 1, rows


if __name__ == "__main__":
    main()
