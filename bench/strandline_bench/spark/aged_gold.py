"""The gold table of a step that has closed a window each minute, for hours or weeks."""

import time
from collections.abc import Iterator
from typing import Any

from strandline_bench.spark.aged_lake import (
    BATCH_S,
    NAME,
    PARTITIONS,
    ROWS,
    WINDOW_US,
    Lake,
    event_time,
)
from strandline_bench.spark.aged_log import AgedCommit, AgedLog

_BATCHES = WINDOW_US // 1_000_000 // BATCH_S


def make_gold(lake: Lake, columns: Any, identity: str) -> None:
    """Makes the table, whose newest commit has closed all windows but the last. No file exists."""
    from strandline_spark.gold.silver import Silver
    from strandline_spark.gold.table import GoldTable

    table = GoldTable.open_or_create(lake.step, NAME, columns, identity)
    silver_id = Silver.open(lake.silver).id
    windows = event_time(lake.batches) // WINDOW_US - event_time(0) // WINDOW_US
    log = AgedLog(table.path, windows)
    log.write(_commits(lake, windows, silver_id, identity), windows)


def _commits(lake: Lake, windows: int, silver_id: str, identity: str) -> Iterator[AgedCommit]:
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.gold.account import METADATA_KEY, Closed, GoldAccount, to_metadata
    from strandline_spark.gold.watermark import GoldCommit

    now_ms = time.time_ns() // 1_000_000
    previous = None
    for number in range(1, windows + 1):
        watermark = event_time(0) + number * WINDOW_US
        batches = lake.batches if number == windows else number * _BATCHES
        ends = {TopicPartition("t", p): batches * ROWS for p in range(PARTITIONS)}
        account = GoldAccount(
            number=number,
            closed=Closed(GoldCommit(watermark, ends)),
            previous=previous,
            silver_id=silver_id,
            silver_version=batches,
            rows=1,
            late=0,
            definition=identity,
        )
        previous = watermark
        add = {
            "path": f"{number:024x}.parquet",
            "partitionValues": {},
            "size": 1_500,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": '{"numRecords": 1}',
        }
        yield AgedCommit(
            [add],
            {f"strandline-gold:{NAME}/{lake.step.name}": watermark},
            {METADATA_KEY: to_metadata(account)},
            now_ms - (windows - number) * 60_000,
        )
