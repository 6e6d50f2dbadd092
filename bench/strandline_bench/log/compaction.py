"""One cleaning of a large log, in a separate process whose memory is measured.

Run as a module with the path of a data directory, it cleans the one log and prints figures.
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

from strandline_bench.log.options import LogOptions
from strandline_bench.log.store import START_MS, Hurried, Stopwatch, Store, progress
from strandline_bench.report import Report
from strandline_broker.storage.cleaner.cleaner import Cleaner, Task
from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import build_batch, read_header

CONFIG: Final = LogConfig(segment_bytes=64 << 20, cleanup_policy=("compact",))
VALUE_BYTES: Final = 100
BATCH_RECORDS: Final = 100


def run(options: LogOptions, report: Report, path: Path) -> None:
    keys = max(int(options.records * options.live_share), 1)
    _fill(path, options.records, keys)
    told = subprocess.run(
        [sys.executable, "-m", __name__, str(path)], capture_output=True, text=True, check=False
    )
    if told.returncode != 0:
        raise RuntimeError(f"the cleaning failed: {told.stderr.strip().splitlines()[-1:]}")
    figures = json.loads(told.stdout)
    report.measured("log-compaction", {**figures, "keys": keys})


def _fill(path: Path, records: int, keys: int) -> None:
    rng = random.Random(records)
    values = [rng.randbytes(VALUE_BYTES) for _ in range(64)]
    store = Store(path, CONFIG, Hurried())
    log = store.create()
    for first in range(0, records, BATCH_RECORDS):
        count = min(BATCH_RECORDS, records - first)
        batch = build_batch(
            ((b"key-%012d" % rng.randrange(keys), values[i % 64]) for i in range(count)),
            timestamp_ms=START_MS + first,
        )
        log.append_as_leader(batch, read_header(batch), leader_epoch=0)
        if first % (BATCH_RECORDS * 5000) == 0:
            progress(f"compaction: {first} of {records} records written")
    log.roll()
    store.stop()


def clean(path: Path) -> dict[str, float | int]:
    """Clean the log at `path`, except its active segment."""
    store = Store(path, CONFIG, Hurried())
    (log,) = store.load()
    segments = log.state.tail[0][:-1]
    task = Task(
        segments=segments,
        first_dirty=log.log_start_offset,
        config=CONFIG,
        live_producers={},
        now_ms=START_MS,
    )
    before = log.size_bytes
    base = resident_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    passes, first = 0, log.log_end_offset
    with Stopwatch() as watch:
        outcome = Cleaner(store.fs).clean(log, task)
        passes += 1
        while not outcome.is_whole:
            task = Task(log.state.tail[0][:-1], outcome.cleaned_to, CONFIG, {}, START_MS)
            outcome = Cleaner(store.fs).clean(log, task)
            passes += 1
    figures: dict[str, float | int] = {
        "records_s": first / watch.wall_s,
        "clean_s": watch.wall_s,
        "cpu_s": watch.cpu_s,
        "memory_over_base_mb": (resident_kb("VmHWM") - base) * 1024 / 1e6,
        "log_mb": before / 1e6,
        "cleaned_log_mb": log.size_bytes / 1e6,
        "records": first,
        "passes": passes,
    }
    store.kill()
    return figures


def resident_kb(name: str) -> int:
    """`VmRSS`, the current resident memory, or `VmHWM`, its maximum so far."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    print(json.dumps(clean(Path(sys.argv[1]))))
