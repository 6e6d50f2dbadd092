"""The load of a coordinator's partition with many transactional ids, as compaction leaves it.

Each round is a new process with the code of a broker, so the code of shards is imported as by the
first shard of a broker. A timer of a millisecond measures how long the event loop stands still. On
a busy machine that is the other programs' doing too; the processor time of its thread is not.
"""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from strandline_bench import loop
from strandline_bench.log.store import START_MS, Hurried, Store
from strandline_bench.report import Report, median

if TYPE_CHECKING:
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.log import Log

T = TypeVar("T")

IDS: Final = 100_000
EPOCH: Final = 1
TICK_S: Final = 0.001
WAIT_S: Final = 60.0
ROUND_S: Final = 300.0


def run(rounds: int, report: Report) -> None:
    """Measures the load in `rounds` processes, one after the other."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as path:
        _in_process("write", path)
        measured = [json.loads(_in_process("load", path)) for _ in range(rounds)]
    report.measured(
        "load",
        {
            "load_s": median([each["load_s"] for each in measured]),
            "cpu_s": median([each["cpu_s"] for each in measured]),
            "pause_ms_max": max(each["pause_ms"] for each in measured),
            "pause_cpu_ms_max": max(each["pause_cpu_ms"] for each in measured),
            "ids": IDS,
        },
    )


def _in_process(step: str, path: str) -> str:
    command = [sys.executable, "-m", "strandline_bench.transactions.load", step, path]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=ROUND_S)
    return done.stdout


def write(path: Path) -> None:
    """Writes the log: one batch for the last record of each id, as its last transaction left it."""
    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.core.internal_topics import TRANSACTION_STATE
    from strandline_broker.core.transactions.records import TransactionKey, encode
    from strandline_broker.core.transactions.transaction import (
        WITH_BUMP,
        Transaction,
        TransactionState,
    )
    from strandline_proto.batch import build_batch, read_header
    from strandline_proto.ids import ProducerEpoch, ProducerId

    store = Store(path, fs=Hurried())
    log = store.directory.create_log(TRANSACTION_STATE, bytes(16), 0, store.config)
    store.logs.append(log)
    for number in range(IDS):
        value = Transaction(
            producer_id=ProducerId(number),
            producer_epoch=ProducerEpoch(3),
            timeout_ms=60_000,
            state=TransactionState.COMPLETE_COMMIT,
            updated_ms=START_MS,
            started_ms=START_MS,
            previous_producer_id=ProducerId(number),
            version=WITH_BUMP,
            last_producer_epoch=ProducerEpoch(2),
        )
        record = encode(Record(TransactionKey(f"orders-service-{number:06d}"), value))
        batch = build_batch([record], timestamp_ms=START_MS)
        log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    store.stop()


def load(path: Path) -> dict[str, float]:
    """Loads the log as the first shard of a broker does."""
    import strandline_broker.app  # noqa: F401 - a broker has all of it before its first shard

    store = Store(path)
    (log,) = store.load()
    try:
        with ThreadPoolExecutor(1) as thread:
            return loop.run(_measured(log, thread))
    finally:
        store.kill()


async def _measured(log: "Log", thread: Executor) -> dict[str, float]:
    shards, partition = _registry(log)
    gc.collect()  # as a broker has done before: what survives is not visited again
    running = asyncio.create_task(shards.run(cast("LogDirs", _Disk(thread))))
    pauses: list[tuple[float, float]] = []
    ticking = asyncio.create_task(_tick(pauses))
    await asyncio.sleep(0.1)
    pauses.clear()
    began, cpu = time.perf_counter(), time.process_time()
    shards.elected(partition, EPOCH, log.log_end_offset)
    shards.published()
    while not shards.hosts():  # noqa: ASYNC110 - the code is imported first
        await asyncio.sleep(TICK_S)
    (host,) = shards.hosts()
    await host.settled(WAIT_S)
    found = {"load_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    await asyncio.sleep(2 * TICK_S)
    if host.refusal() is not None or len(host.application.transactions.table) != IDS:
        raise SystemExit(f"error: the log was not loaded: {host.refusal()}")
    for task in (ticking, running):
        task.cancel()
    await asyncio.gather(ticking, running, return_exceptions=True)
    late, cpu = (max(each) * 1e3 for each in zip(*pauses, strict=True))
    return {**found, "pause_ms": late, "pause_cpu_ms": cpu}


async def _tick(pauses: list[tuple[float, float]]) -> None:
    """Notes how late each wake-up is, and the processor time of the loop's thread before it."""
    while True:
        due, cpu = time.perf_counter() + TICK_S, time.thread_time()
        await asyncio.sleep(TICK_S)
        pauses.append((time.perf_counter() - due, time.thread_time() - cpu))


def _registry(log: "Log") -> "tuple[Shards[Any], Partition]":
    """The coordinator of a broker that leads nothing else."""
    from strandline_broker.config.loading import load_broker_config
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.suspects import Suspects
    from strandline_broker.hosts.transactions.coordinator import transaction_shards
    from strandline_runtime.real import real_runtime

    needed = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": log.path,
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
    }
    config, runtime = load_broker_config(None, needed, {}), real_runtime("bench")
    # A load asks nothing of the other parts of a broker.
    nothing: Any = None
    shards = transaction_shards(
        runtime, config, MetadataCache(cluster_id="bench"), lambda: True, nothing, lambda: nothing
    )
    partition = Partition(
        runtime, DynamicConfig(config), nothing, nothing, Suspects({}), log, log.log_end_offset
    )
    return shards, partition


class _Disk:
    """The threads of the directory."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread

    async def in_disk_pool(self, log: "Log", work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _set_up_as_a_broker() -> None:
    from strandline_runtime.real import take_short_turns
    from strandline_runtime.survivors import freeze_survivors

    take_short_turns()
    freeze_survivors()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        _set_up_as_a_broker()
        print(json.dumps(load(Path(sys.argv[2]))))
