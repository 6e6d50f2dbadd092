"""Bronze tables of records with values, made without Spark, and Spark's part in a catch-up."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.columns import FILE_SCHEMA, BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.stores import files as stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Record(NamedTuple):
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    topic: str = "t"


def take(root: str, batch_id: int, records: Iterable[Record], owner: str = "p") -> None:
    """One commit: a file and a range for each partition's records, the range up to the last."""
    table = BronzeTable.open_or_create(root, owner)
    ranges, files = [], []
    for (topic, partition), group in groupby(
        sorted(records, key=lambda one: (one.topic, *one[:2])),
        key=lambda one: (one.topic, one.partition),
    ):
        held = list(group)
        path = f"topic={topic}/ingest_date=2026-01-01/{os.urandom(6).hex()}.parquet"
        full = os.path.join(root, path)
        stores.make_folder(os.path.dirname(full))
        rows = [
            {
                "partition": partition,
                "offset": one.offset,
                "timestamp": one.offset,
                "timestamp_type": 0,
                "key": one.key,
                "value": one.value,
                "leader_epoch": 0,
                "batch_id": batch_id,
            }
            for one in held
        ]
        stores.write_parquet(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), full)
        tp = TopicPartition(topic, partition)
        start, end = table.end(tp) or 0, held[-1].offset + 1
        skipped = end - start - len(held)
        ranges.append(
            CommittedRange(
                *(topic, topic_id_text(bytes(16)), partition, start, end, len(held), skipped, 0)
            )
        )
        files.append(
            DataFile(
                path=path,
                size=stores.size(full),
                topic=topic,
                ingest_date="2026-01-01",
                partition=partition,
                rows=len(held),
                offset_min=held[0].offset,
                offset_max=held[-1].offset,
                leader_epoch_min=0,
                leader_epoch_max=0,
            )
        )
    table.commit("j", batch_id, ranges, files)


class InlineSpark:
    """Spark's tasks run in this process, one after the other."""

    def __init__(self) -> None:
        self.sparkContext = self

    def parallelize(self, items: Sequence[Any], slices: int) -> _Items:
        assert slices == len(items)
        return _Items(list(items))


class _Items:
    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def flatMap(self, act: Callable[[Any], Iterable[Any]]) -> _Items:
        return _Items([one for item in self._items for one in act(item)])

    def collect(self) -> list[Any]:
        return self._items
