"""`strandline.sync`: records that one thread sends by `send`, and iterates over."""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.report import Report, median
from strandline_bench.target import fresh_topic, running

if TYPE_CHECKING:
    from concurrent.futures import Future

    from strandline.types import RecordMetadata

HANDED_BYTES: Final = 32 << 20
"""Bytes sent in one round: half a buffer, so that no `send` waits for room."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Records a second of one round."""

    handed_over: float
    acknowledged: float
    iterated: float


def run(options: Options, report: Report) -> None:
    import uvloop

    with running(options) as target:
        rates = uvloop.run(_rounds(target.bootstrap, options))
    report.measured(
        "blocking",
        {
            "handed_over_records_s": median([r.handed_over for r in rates]),
            "acknowledged_records_s": median([r.acknowledged for r in rates]),
            "iterated_records_s": median([r.iterated for r in rates]),
            "rounds": len(rates),
        },
    )


async def _rounds(bootstrap: str, options: Options) -> list[Rates]:
    rates: list[Rates] = []
    for number in range(options.rounds + 1):  # the first one warms up and does not count
        async with fresh_topic(bootstrap, f"bench-blocking-{number}", options) as topic:
            found = await asyncio.to_thread(_round, bootstrap, topic, options)
        if number > 0:
            rates.append(found)
    return rates


def _round(bootstrap: str, topic: str, options: Options) -> Rates:
    from strandline.sync import Consumer, Producer

    count = min(options.records, max(1000, HANDED_BYTES // options.record_size))
    values = list(payloads(count, options.record_size))
    with Producer(
        bootstrap,
        acks=options.acks,
        compression_type=None if options.compression == "none" else options.compression,
        batch_size=options.batch_size,
    ) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        sent: list[Future[RecordMetadata]] = [producer.send(topic, value) for value in values]
        handed_over_s = time.perf_counter() - started
        producer.flush()
        acknowledged_s = time.perf_counter() - started
    for future in sent:
        future.result()
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        volume = len(next(consumer).value or b"")
        started = time.perf_counter()
        for _ in range(count - 1):
            volume += len(next(consumer).value or b"")
        iterated_s = time.perf_counter() - started
    assert volume == count * options.record_size, (volume, count)
    return Rates(count / handed_over_s, count / acknowledged_s, (count - 1) / iterated_s)
