"""Long work in steps: what is found is the same, and others have their turn between them."""

import asyncio
import struct
from dataclasses import replace
from pathlib import Path

from crc32c import crc32c

from strandline_broker.hosts.disks.log_dirs import LogDirs
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.files.steps import (
    HEADERS_A_STEP,
    RECORDS_A_STEP,
    Steps,
    in_a_row,
    paced,
)
from strandline_proto.batch import ATTRIBUTES_AT, CRC_AT, Compression, build_batch, read_header
from strandline_runtime.real import real_runtime
from support.storage import LARGE, TOPIC_ID, Store

MAX_TIMESTAMP_AT = 35


def test_a_step_ends_after_so_many_items() -> None:
    assert list(paced("abcde", 2)) == ["a", "b", None, "c", "d", None, "e"]


def test_the_result_is_that_of_the_last_step() -> None:
    def steps() -> Steps[int]:
        yield
        yield
        return 7

    assert in_a_row(steps()) == 7


def test_a_lookup_in_a_batch_of_many_records_ends_a_step_every_few_milliseconds(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", LARGE)
    records = 5 * RECORDS_A_STEP
    batch = bytearray(
        build_batch(
            ((None, None) for _ in range(records)), timestamp_ms=1500, compression=Compression.ZSTD
        )
    )
    # Its header claims a time that none of its records has, so all of them are looked at.
    struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, 2000)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    store.log.append_as_leader(bytes(batch), read_header(batch), leader_epoch=0)
    store.append(b"after", timestamp_ms=2000)
    assert sum(1 for _ in store.log.time_lookup(2000)) == 5
    assert in_a_row(store.log.time_lookup(2000)) == (2000, records, 0)
    store.log.raise_log_start(1)
    assert sum(1 for _ in store.log.time_lookup(None)) == 10, "once for the largest, once for it"


def test_a_walk_over_many_batches_ends_a_step_every_few_milliseconds(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", replace(LARGE, index_interval_bytes=1 << 30))
    for _ in range(2 * HEADERS_A_STEP):
        store.append(b"", timestamp_ms=1000)
    store.append(b"after", timestamp_ms=2000)
    assert sum(1 for _ in store.log.time_lookup(2000)) == 2


async def test_who_waits_for_the_directory_has_a_turn_between_two_steps(tmp_path: Path) -> None:
    runtime = real_runtime("broker-1")
    directories = BrokerDirectories.open(
        runtime.fs, [str(tmp_path)], node_id=1, cluster_id="c", new_id=runtime.random_id
    )
    log = directories.online[0].create_log("t", TOPIC_ID, 0, LARGE)
    dirs = LogDirs(runtime, directories, on_failed=lambda _: None, on_full=lambda: None)
    answered = False

    def monstrous() -> Steps[str]:
        for _ in range(100_000):
            if answered:
                return "at last"
            yield
        return "nobody else had a turn"

    def short() -> Steps[str]:
        return "at once"
        yield

    async with asyncio.TaskGroup() as group:
        long = group.create_task(dirs.in_turns(log, monstrous()))
        assert await dirs.in_turns(log, short()) == "at once"
        answered = True
    assert long.result() == "at last"
    log.close()
    directories.close()
