"""PySpark collects garbage after every task: what libraries hold is not looked through anew."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext

from strandline_spark.bronze.task_files import BATCH_ID_PROPERTY, BronzeStreamReader
from strandline_spark.cluster.cluster import close_channels
from strandline_spark.data_source import StrandlineReader
from strandline_spark.source.gc_freeze import spare_libraries
from strandline_spark.source.options import SourceOptions, parse_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """As a new process is."""
    unfreeze()
    yield
    gc.unfreeze()
    close_channels()


@pytest.fixture
def options(broker: FakeBroker) -> SourceOptions:
    broker.create("t").partitions[0].append([(b"k", b"v")])
    return parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})


def test_a_collection_spares_what_is_there_after_the_first_planning(options: SourceOptions) -> None:
    StrandlineReader(options).partitions()
    assert gc.get_freeze_count() > 10_000


def test_a_collection_spares_what_is_there_after_the_first_task(options: SourceOptions) -> None:
    reader = StrandlineReader(options)
    (partition,) = reader.partitions()
    unfreeze()
    assert [batch.num_rows for batch in reader.read(partition)] == [1]
    assert gc.get_freeze_count() > 10_000


def test_a_collection_spares_what_is_there_after_the_first_file(
    options: SourceOptions, tmp_path: Path
) -> None:
    (partition,) = StrandlineReader(options).partitions()
    unfreeze()
    context = TaskContext._getOrCreate()
    context._localProperties = {BATCH_ID_PROPERTY: "0"}
    try:
        list(BronzeStreamReader(options, str(tmp_path), None).read(partition))
    finally:
        TaskContext._setTaskContext(None)
    assert gc.get_freeze_count() > 10_000


def test_what_a_task_leaves_behind_later_is_collected(options: SourceOptions) -> None:
    reader = StrandlineReader(options)
    (partition,) = reader.partitions()
    frozen = gc.get_freeze_count()
    list(reader.read(partition))
    spare_libraries()
    assert gc.get_freeze_count() <= frozen


def unfreeze() -> None:
    spare_libraries.cache_clear()
    gc.unfreeze()
