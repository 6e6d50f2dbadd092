"""`verify --values`: reads the topic again and compares each of the table's rows with its record.

Both sides are folded to a checksum of key, value, headers and timestamp for each offset, a window
of offsets at a time. So memory is bounded whatever the topic's size. Rows whose records the topic
no longer holds (retention, compaction) are `unchecked`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT
from strandline_spark.source.losses import OnLoss
from strandline_spark.source.ranges import RangeReader
from strandline_spark.source.splitting import PlannedRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.bronze.verify import PartitionFindings
    from strandline_spark.cluster.cluster import Mark
    from strandline_spark.cluster.offsets import TopicPartition

WINDOW: Final = 1 << 20
"""Number of offsets that are compared at a time."""
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_BATCH_ROWS: Final = 1 << 14

Sums = tuple[Any, Any]
"""Offsets, and the checksum of each one's record; numpy arrays in the order of arrival."""


def compare_values(
    found: PartitionFindings, table: BronzeTable, mark: Mark, bootstrap: tuple[str, ...]
) -> None:
    """Counts the partition's checked, unchecked and differing rows, and adds the faults to its
    problems.
    """
    tp = found.tp
    found.unchecked = found.differing = 0
    first = -1
    for start in range(max(found.first_offset, 0), max(found.end_offset, 0), WINDOW):
        stop = min(start + WINDOW, found.end_offset)
        offsets, sums = _summed(_of_table(table, tp, start, stop))
        if len(offsets) == 0:
            continue
        known, of_topic = _of_topic(tp, mark, start, stop, bootstrap)
        at: Any = np.searchsorted(known, offsets)
        there = np.isin(offsets, known)
        other = sums[there] != of_topic[at[there]]
        found.unchecked += int(len(offsets) - there.sum())
        if other.any():
            found.differing += int(other.sum())
            least = int(offsets[there][other].min())
            first = least if first < 0 else min(first, least)
    if found.differing > 0:
        found.problems.append(
            f"{found.differing} rows are not what the topic's records are, the first at offset"
            f" {first}"
        )


def _of_table(table: BronzeTable, tp: TopicPartition, start: int, stop: int) -> Iterator[Any]:
    offset = ds.field("offset")
    wanted = (ds.field("topic") == tp.topic) & (ds.field("partition") == tp.partition)
    wanted = wanted & (offset >= start) & (offset < stop)
    bounds = {"batch_size": _BATCH_ROWS, "batch_readahead": 2}
    for file, scanner in table.scanners(wanted, list(_COLUMNS), **bounds):
        with table.reading(file):
            yield from scanner.to_batches()


def _of_topic(
    tp: TopicPartition, mark: Mark, start: int, stop: int, bootstrap: tuple[str, ...]
) -> Sums:
    """Returns the offsets and checksums that the topic still holds of the window; offsets rise."""
    start, stop = max(start, mark.log_start), min(stop, mark.high_watermark)
    if start >= stop:
        return _summed(())
    reader = RangeReader(
        PlannedRange(tp, mark.topic_id, start, stop, mark.epoch),
        bootstrap,
        columns=_COLUMNS,
        on_loss=OnLoss.GO_ON,
        max_decompressed_bytes=DECOMPRESSED_BYTES_LIMIT,
        read_committed=True,
    )
    return _summed(reader.batches())


def _summed(batches: Iterable[Any]) -> Sums:
    offsets, sums = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        headers = (
            None if found is None else tuple((h["key"], h["value"]) for h in found)
            for found in batch.column("headers").to_pylist()
        )
        keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
        records = zip(times, keys, values, headers, strict=True)
        # Python's own hash has a key for each process; both sides are summed in this process.
        sums.append(np.fromiter(map(hash, records), np.int64, batch.num_rows))
        offsets.append(batch.column("offset").to_numpy())
    return np.concatenate(offsets), np.concatenate(sums)
