"""The latency of a caller that sends one record at a time and waits for its answer."""

import time
from typing import Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.peers import floor
from strandline_bench.report import Figures, Report, median, percentile
from strandline_bench.target import addresses, fresh_topic
from strandline_bench.watching import watcher

WARM_UP: Final = 500


def run(options: Options, report: Report) -> None:
    import uvloop

    with addresses(options) as bootstrap:
        uvloop.run(_rounds(bootstrap, options, report))


async def _rounds(bootstrap: str, options: Options, report: Report) -> None:
    rounds: list[list[float]] = []
    floors: list[list[float]] = []
    watched: list[list[float]] = []
    async with fresh_topic(bootstrap, "bench-latency", options) as topic:
        for _ in range(options.rounds):
            if options.watched:
                async with watcher(bootstrap):
                    watched.append(await _round(bootstrap, topic, options))
            rounds.append(await _round(bootstrap, topic, options))
            if options.floor:
                floors.append(await floor.latencies_ms(options))
    p50 = [percentile(taken, 0.5) for taken in rounds]
    p99 = [percentile(taken, 0.99) for taken in rounds]
    figures: Figures = {"p50_ms": median(p50), "p99_ms": median(p99)}
    if watched:
        watched_p50 = median([percentile(taken, 0.5) for taken in watched])
        figures |= {
            "watched_p50_ms": watched_p50,
            "watched_p99_ms": median([percentile(taken, 0.99) for taken in watched]),
            "watched_share": median(p50) / watched_p50,
        }
    if floors:
        floor_p50 = [percentile(taken, 0.5) for taken in floors]
        figures |= {
            "floor_p50_ms": median(floor_p50),
            "floor_p99_ms": median([percentile(taken, 0.99) for taken in floors]),
            "floor_share": median([bare / own for bare, own in zip(floor_p50, p50, strict=True)]),
        }
    worst = max(max(taken) for taken in rounds)
    report.measured("latency", {**figures, "max_ms": worst, "rounds": len(rounds)})


async def _round(bootstrap: str, topic: str, options: Options) -> list[float]:
    from strandline import Producer

    taken: list[float] = []
    async with Producer(bootstrap, acks=options.acks) as producer:
        for payload in payloads(WARM_UP + options.records, options.record_size):
            started = time.perf_counter()
            await producer.send_and_wait(topic, payload)
            taken.append((time.perf_counter() - started) * 1e3)
    return taken[WARM_UP:]
