"""The simulator's reader of Kafka's protocol hands over all records that its position is behind."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.kafka.reader import KafkaReader, OutOfRange
from strandline_proto.batch import build_batch

OUT_OF_RANGE = 1


class Leader:
    """Answers a Fetch: records of partition 0, and an error for partition 1."""

    async def call(self, name: str, version: int, **fields: Any) -> Any:
        assert name == "Fetch"
        asked = {each.partition: each.fetch_offset for each in fields["topics"][0].partitions}
        records = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1)
        return SimpleNamespace(
            error_code=0,
            responses=[
                SimpleNamespace(
                    partitions=[
                        partition(0, records if asked[0] == 0 else b""),
                        partition(1, b"", OUT_OF_RANGE),
                    ]
                )
            ],
        )


def partition(index: int, records: bytes, error_code: int = 0) -> Any:
    return SimpleNamespace(
        partition_index=index, records=records, error_code=error_code, diverging_epoch=None
    )


async def test_an_error_of_one_partition_loses_no_record_of_another() -> None:
    async def leader(topic: str, partition: int) -> Any:
        return found

    found = Leader()
    cluster: Any = SimpleNamespace(
        runtime=SimpleNamespace(rng=random.Random(1)), leader=leader, topic_ids={"t": b"t" * 16}
    )
    reader = KafkaReader(
        cluster,
        "t",
        keys=(),
        partition_bytes=1000,
        compression="none",
        on_record=lambda _: None,
        on_event=lambda _: None,
    )
    reader.assign({0: 0, 1: 8})
    assert await reader.poll(0) == {0: [(0, b"a"), (1, b"b")]}
    with pytest.raises(OutOfRange):
        await reader.poll(0)
