"""A batch that unpacks to gigabytes lies in the log of a real broker: what reading it costs."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline import Consumer, NewTopic, TopicPartition, sync
from strandline.errors import BrokerError, CorruptRecords
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_proto.batch import Compression, read_header
from strandline_proto.errors import RecordTooLarge
from strandline_runtime.real import RealFileSystem
from support.hostile import batch_of, zstd_bomb
from support.storage import LARGE

if TYPE_CHECKING:
    from support.cluster import MakeCluster

ZSTD = zstd_bomb(1_000_000_000)
ADDED_BYTES_MAX = 128 << 20
WAIT_S = 60.0
AT_ONCE_S = 5.0
"""A busy machine is no dead one; without steps nobody was answered for 30 s."""
HOSTILE = TopicPartition("hostile", 0)
CALM = TopicPartition("calm", 0)


def store(path: Path, batch: bytes) -> None:
    """Into the log of HOSTILE past every check, by the classes of a broker that has stopped."""
    directory = DataDirectory.open(
        RealFileSystem(), str(path), node_id=1, cluster_id=None, new_id=lambda: bytes(16)
    )
    (found,) = [each for each in directory.partitions() if each.topic == HOSTILE.topic]
    log = directory.load_log(found, LARGE, print)
    log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    log.close()
    directory.write_recovery_points({(HOSTILE.topic, 0): log.durable_offset})
    directory.write_clean_shutdown(directory.previous_broker_epoch)
    directory.close()


def resident_bytes(pid: int, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) << 10


def highest_begins_anew(pid: int) -> int:
    """The bytes that are resident now, as the highest."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident_bytes(pid, "VmRSS")


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="NOT TESTED: no /proc")
async def test_a_stored_bomb_costs_a_broker_no_memory_and_no_other_partition(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=1)
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(tp.topic, 1, 1) for tp in (HOSTILE, CALM)])
    with sync.Producer(cluster.bootstrap) as producer:
        for tp in (HOSTILE, CALM):
            producer.send_and_wait(tp.topic, b"sound", partition=0, timestamp_ms=1)
    cluster.stop(1)
    store(cluster.data_directory(1), batch_of(ZSTD, Compression.ZSTD, base_ms=5, latest_ms=5))
    cluster.start(1)
    pid = cluster.process(1).pid
    assert pid is not None

    async with Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        assert await consumer.end_offsets([HOSTILE]) == {HOSTILE: 2}
        before = highest_begins_anew(pid)

        async def look_up() -> None:
            for _ in range(3):
                with pytest.raises(BrokerError) as caught:
                    await consumer.offsets_for_times({HOSTILE: 5})
                assert caught.value.code == RecordTooLarge.code
                assert "the batch at offset 1: " in str(caught.value)
                assert "raise the topic's max.message.decompressed.bytes" in str(caught.value)

        lookups = [asyncio.create_task(look_up()) for _ in range(4)]
        longest_s, asked = 0.0, 0
        while not all(each.done() for each in lookups):
            began_s = time.monotonic()
            found = (await consumer.offsets_for_times({CALM: 1}))[CALM]
            assert found is not None
            assert found.offset == 0
            longest_s, asked = max(longest_s, time.monotonic() - began_s), asked + 1
        await asyncio.gather(*lookups)
        added = resident_bytes(pid, "VmHWM") - before
        figures = f"{added >> 20} MB more, {asked} answers beside, the longest in {longest_s:.3f} s"
        assert asked > 1, figures
        assert longest_s < AT_ONCE_S, figures
        assert added <= ADDED_BYTES_MAX, figures

        await consumer.assign([HOSTILE])
        async with asyncio.timeout(WAIT_S):
            assert (await consumer.getone()).value == b"sound"
            with pytest.raises(CorruptRecords, match=r"at offset 1: .*raise .*max_decompr"):
                await consumer.getone()
