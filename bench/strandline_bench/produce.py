"""Writes by `send_many` (an iterable, one answer) and by `send` (a future for each record)."""

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.peers import floor
from strandline_bench.report import Figures, Report, median
from strandline_bench.target import Target, fresh_topic, running
from strandline_bench.watching import watcher

if TYPE_CHECKING:
    import asyncio

    from strandline import Producer
    from strandline.types import RecordMetadata

UNCHECKED_MAX: Final = 10_000
"""Futures of `send` whose results are not checked yet."""
SEND_SHARE: Final = 4
"""Share of the records in rounds of `send`, which costs more for each: a quarter."""
HANDED_BYTES: Final = 32 << 20
"""Bytes that `send` sends in a row: half a buffer, so that nothing waits for room."""


def run(options: Options, report: Report) -> None:
    import uvloop

    with running(options) as target:
        uvloop.run(_rounds(target, options, report))


async def _rounds(target: Target, options: Options, report: Report) -> None:
    rates: dict[str, list[float]] = {"send_many": [], "send": []}
    watched: dict[str, list[tuple[float, float]]] = {"send_many": [], "send": []}
    brokers_ms_mb: dict[str, list[float]] = {"send_many": [], "send": []}
    handed_over: list[float] = []
    floors: list[float] = []
    apis = ("send_many", "send") if options.api == "both" else (options.api,)
    for number in range(options.rounds + 1):  # the first one warms up and does not count
        for api in apis:
            name = f"bench-{api.replace('_', '-')}-{number}"
            if options.watched:
                async with watcher(target.bootstrap):
                    rate, brokers_ms, _ = await _round(target, name, api, options)
                watched[api] += [(rate, brokers_ms)] * (number > 0)
            rate, brokers_ms, handed = await _round(target, name, api, options)
            if number > 0:
                rates[api].append(rate)
                handed_over += handed
                brokers_ms_mb[api].append(brokers_ms)
        if options.floor:
            mb_s = await floor.throughput_mb_s(options)
            if number > 0:
                floors.append(mb_s)
    for api in apis:
        figures = _figures(api, rates[api], floors, options)
        figures |= _watched_figures(rates[api], watched[api], options)
        if target.pids:
            figures["brokers_cpu_ms_per_mb"] = median(brokers_ms_mb[api])
        if api == "send":
            figures["handed_over_records_s"] = median(handed_over)
        report.measured("produce", {**figures, "rounds": len(rates[api])})


def _figures(api: str, rates: list[float], floors: list[float], options: Options) -> Figures:
    shares = [
        rate * options.record_size / 1e6 / bare for rate, bare in zip(rates, floors, strict=False)
    ]
    figures: Figures = {
        "api": api,
        "mb_s": median(rates) * options.record_size / 1e6,
        "records_s": median(rates),
        "mb_s_min": min(rates) * options.record_size / 1e6,
        "mb_s_max": max(rates) * options.record_size / 1e6,
    }
    if shares:
        figures |= {"floor_mb_s": median(floors), "floor_share": median(shares)}
    return figures


def _watched_figures(
    rates: list[float], watched: list[tuple[float, float]], options: Options
) -> Figures:
    if not watched:
        return {}
    rate = median([rate for rate, _ in watched])
    return {
        "watched_mb_s": rate * options.record_size / 1e6,
        "watched_share": rate / median(rates),
        "watched_brokers_cpu_ms_per_mb": median([brokers_ms for _, brokers_ms in watched]),
    }


async def _round(
    target: Target, name: str, api: str, options: Options
) -> tuple[float, float, list[float]]:
    """Records a second of one round, milliseconds of the brokers' CPU for a MB, and of `send` the
    records a second that it hands over: every record acknowledged, or the benchmark ends.
    """
    from strandline import Producer

    count = options.records if api == "send_many" else max(1000, options.records // SEND_SHARE)
    async with (
        fresh_topic(target.bootstrap, name, options) as topic,
        Producer(
            target.bootstrap,
            acks=options.acks,
            compression_type=None if options.compression == "none" else options.compression,
            batch_size=options.batch_size,
        ) as producer,
    ):
        await producer.send_and_wait(topic, b"warm", partition=0)
        used_s = target.brokers_cpu_s()
        started = time.perf_counter()
        if api == "send_many":
            await _send_many(producer, topic, count, options)
        else:
            await _send(producer, topic, count, options)
        taken_s = time.perf_counter() - started
        used_s = target.brokers_cpu_s() - used_s
        handed = [await _hand_over(producer, topic, options)] if api == "send" else []
        return count / taken_s, used_s * 1e3 / (count * options.record_size / 1e6), handed


async def _send_many(producer: "Producer", topic: str, count: int, options: Options) -> None:
    result = await producer.send_many(topic, payloads(count, options.record_size))
    assert result.acknowledged == result.records == count, result


async def _send(producer: "Producer", topic: str, count: int, options: Options) -> None:
    waiting: deque[asyncio.Future[RecordMetadata]] = deque()
    for payload in payloads(count, options.record_size):
        waiting.append(await producer.send(topic, payload))
        if len(waiting) >= UNCHECKED_MAX:
            await waiting.popleft()
        while waiting and waiting[0].done():
            waiting.popleft().result()
    for future in waiting:
        await future


async def _hand_over(producer: "Producer", topic: str, options: Options) -> float:
    """Records a second of calls alone, without a turn of the event loop in between."""
    count = max(1000, HANDED_BYTES // options.record_size)
    values = list(payloads(count, options.record_size))
    started = time.perf_counter()
    sent = [await producer.send(topic, value) for value in values]
    taken_s = time.perf_counter() - started
    for future in sent:
        await future
    return count / taken_s
