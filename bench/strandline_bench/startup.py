"""The time from exec on an empty directory to the first acknowledgement; resident memory
when idle.
"""

import time
from typing import Final

from strandline_bench import loop
from strandline_bench.options import Options
from strandline_bench.report import Report, median
from strandline_bench.resources import resident_mb
from strandline_bench.target import fresh_topic, own_cluster
from strandline_local.cluster_files import CONTROLLER
from strandline_local.local_cluster import LocalCluster

IDLE_S: Final = 3.0
"""Seconds without requests before the cluster's memory is read."""


def run(options: Options, report: Report) -> None:
    ready: list[float] = []
    first: list[float] = []
    for number in range(1, options.rounds + 1):
        with own_cluster(options) as cluster:
            started = time.monotonic()
            cluster.up()
            ready.append(time.monotonic() - started)
            loop.run(_first_record(cluster.grpc_bootstrap, options))
            first.append(time.monotonic() - started)
            report.measured(
                "startup-round",
                {"round": number, "ready_s": ready[-1], "first_ack_s": first[-1]},
            )
            if number == options.rounds:
                time.sleep(IDLE_S)
                memory = _memory(cluster)
    report.measured(
        "startup",
        {
            "first_ack_s": median(first),
            "first_ack_s_max": max(first),
            "ready_s": median(ready),
            **memory,
            "rounds": options.rounds,
        },
    )


async def _first_record(bootstrap: str, options: Options) -> None:
    from strandline import Producer

    async with (
        fresh_topic(bootstrap, "bench-startup", options) as topic,
        Producer(bootstrap, acks=options.acks) as producer,
    ):
        await producer.send_and_wait(topic, b"first", partition=0)


def _memory(cluster: LocalCluster) -> dict[str, float | int | str]:
    brokers = [resident_mb(cluster.process(i).pid) for i in cluster.broker_ids]
    return {
        "rss_mb": max(brokers),
        "rss_mb_controller": resident_mb(cluster.process(CONTROLLER).pid),
    }
