"""`strandline bench spark --worker-memory`: the peak memory of a Python worker of Spark."""

import asyncio
import os
import tempfile
import threading
from typing import Final

from strandline_bench.processes import resident_mb_max, workers
from strandline_bench.report import Report
from strandline_bench.spark.options import LARGE, SparkOptions
from strandline_bench.spark.sides import Ours, end_session, fill
from strandline_bench.target import own_running

FLOOR_MB: Final = 350.0
LOOK_S: Final = 0.25
TOPIC: Final = "bench-spark-memory"


def run(options: SparkOptions, report: Report) -> int:
    """Run the measure; the exit status is 1 if a worker exceeds its limit."""
    from strandline_spark.spark.session import start_session

    count = options.gigabytes * 10**9 // LARGE
    with own_running(options) as target, tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(target.bootstrap, TOPIC, LARGE, count, options))
        spark = start_session(
            "strandline bench spark",
            master=options.master,
            memory=options.memory,
            log_path=f"{folder}/spark.log",
            direct=False,
        )
        try:
            worst = 0.0
            for sink in ("noop", "delta"):
                if sink not in options.sinks:
                    continue
                watch = _Watch()
                watch.start()
                Ours(target.bootstrap, TOPIC, count).run(spark, sink)
                peaks = watch.stop()
                worst = max(worst, *peaks)
                report.measured(
                    "worker-memory",
                    {
                        "sink": sink,
                        "gigabytes": options.gigabytes,
                        "resident_mb": max(peaks),
                        "workers": len(peaks),
                        "floor_mb": FLOOR_MB,
                    },
                )
        finally:
            end_session(spark)
    return int(worst > FLOOR_MB)


class _Watch:
    """Looks at the workers again and again, since they end when they like."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._peaks: dict[int, float] = {}
        self._thread = threading.Thread(target=self._look, name="worker-memory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> list[float]:
        self._ended.set()
        self._thread.join()
        return sorted(self._peaks.values()) or [0.0]

    def _look(self) -> None:
        driver = os.getpid()
        while not self._ended.wait(LOOK_S):
            for pid in workers(driver):
                peak = resident_mb_max(pid)
                if peak is not None:
                    self._peaks[pid] = peak
