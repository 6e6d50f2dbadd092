"""Which checks a batch passes before it is appended: its origin decides."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c

from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import ATTRIBUTES_AT, build_batch, read_header
from strandline_proto.errors import (
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTopic,
    NotEnoughReplicas,
    RecordTooLarge,
)
from support.replica_nodes import TOPIC_ID, decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome

CONTROL_AND_TRANSACTIONAL = 0x30
COMMIT_MARKER_KEY, MARKER_VALUE = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5)


def end_marker() -> bytes:
    """That producer 9 has committed, by coordinator epoch 5."""
    records = [(COMMIT_MARKER_KEY, MARKER_VALUE)]
    batch = bytearray(build_batch(records, timestamp_ms=1, producer_id=9, producer_epoch=0))
    batch[ATTRIBUTES_AT + 1] |= CONTROL_AND_TRANSACTIONAL
    struct.pack_into(">I", batch, ATTRIBUTES_AT - 4, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    assert read_header(bytes(batch)).is_control
    return bytes(batch)


def append(
    partition: Partition, batch: bytes, origin: AppendOrigin, *, acks: int = 1, epoch: int = 0
) -> list[ProduceOutcome]:
    done: list[ProduceOutcome] = []
    leading = check_leader(partition, epoch)
    leading.appends.append(batch, acks=acks, on_done=done.append, origin=origin)
    return done


async def test_only_a_coordinator_may_write_what_only_a_broker_may_say(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1, flush_policy="replicated") as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        with pytest.raises(InvalidRecord):
            append(node.partition, end_marker(), AppendOrigin.CLIENT)
        assert node.partition.log.log_end_offset == 0, "nothing was written (I-20)"
        (outcome,) = append(node.partition, end_marker(), AppendOrigin.COORDINATOR)
        assert outcome.base_offset == 0
        (entry,) = node.partition.producers.entries()
        producer_id, coordinator_epoch = entry[0], entry[6]
        assert (producer_id, coordinator_epoch) == (9, 5), "the marker counts (I-58)"


async def test_a_coordinator_appends_under_the_leader_epoch_and_isr_of_now(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1, message_max_bytes="200") as node:
        await decide(state(1, epoch=1, isr=(1,), min_insync=2), node)
        with pytest.raises(FencedLeaderEpoch):
            append(node.partition, end_marker(), AppendOrigin.COORDINATOR)
        with pytest.raises(NotEnoughReplicas):
            append(node.partition, end_marker(), AppendOrigin.COORDINATOR, acks=-1, epoch=1)
        large = build_batch([(None, b"x" * 200)], timestamp_ms=1)
        with pytest.raises(RecordTooLarge):
            append(node.partition, large, AppendOrigin.COORDINATOR, epoch=1)
        assert node.partition.log.log_end_offset == 0


async def test_what_a_leader_sends_is_not_appended_as_a_leader_does(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        with pytest.raises(AssertionError, match="from their leader"):
            append(node.partition, end_marker(), AppendOrigin.REPLICATION)


async def test_nobody_but_a_coordinator_writes_to_an_internal_topic(tmp_path: Path) -> None:
    """I-109, and a topic whose name only begins so is an ordinary one."""
    batch = build_batch([(b"k", b"v")], timestamp_ms=1)
    async with run_node(tmp_path, 1) as node:
        alone = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
        for partition, name in enumerate(("__consumer_offsets", "__transaction_state")):
            await decide(replace(alone, topic=name, partition=partition), node)
            internal = node.replicas.partitions[TOPIC_ID, partition]
            with pytest.raises(InvalidTopic, match=f"topic {name} is internal"):
                append(internal, batch, AppendOrigin.CLIENT)
            assert internal.log.log_end_offset == 0, "nothing was written (I-20)"
            (outcome,) = append(internal, batch, AppendOrigin.COORDINATOR)
            assert outcome.base_offset == 0
        await decide(replace(alone, topic="__debezium-heartbeat.x", partition=2), node)
        append(node.replicas.partitions[TOPIC_ID, 2], batch, AppendOrigin.CLIENT)
