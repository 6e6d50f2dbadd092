"""A consumer from the beginning of a topic to its end, every record an object."""

import time
from typing import Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.report import Report, median
from strandline_bench.target import Target, fresh_topic, running

STALL_S: Final = 30.0
"""Seconds without a record after which the benchmark ends with an error."""


def run(options: Options, report: Report) -> None:
    import uvloop

    with running(options) as target:
        uvloop.run(_rounds(target, options, report))


async def _rounds(target: Target, options: Options, report: Report) -> None:
    from strandline import Producer

    rates, brokers_ms_mb = [], []
    async with fresh_topic(target.bootstrap, "bench-consume", options) as topic:
        async with Producer(
            target.bootstrap,
            acks=options.acks,
            compression_type=None if options.compression == "none" else options.compression,
            batch_size=options.batch_size,
        ) as producer:
            result = await producer.send_many(topic, payloads(options.records, options.record_size))
            assert result.acknowledged == options.records, result
        for number in range(options.rounds + 1):  # the first one warms up and does not count
            used_s = target.brokers_cpu_s()
            rate = await _round(target.bootstrap, topic, options)
            used_s = target.brokers_cpu_s() - used_s
            if number > 0:
                rates.append(rate)
                brokers_ms_mb.append(used_s * 1e3 / (options.records * options.record_size / 1e6))
    report.measured(
        "consume",
        {
            "mb_s": median(rates) * options.record_size / 1e6,
            "records_s": median(rates),
            "mb_s_min": min(rates) * options.record_size / 1e6,
            "mb_s_max": max(rates) * options.record_size / 1e6,
            **({"brokers_cpu_ms_per_mb": median(brokers_ms_mb)} if target.pids else {}),
            "rounds": len(rates),
        },
    )


async def _round(bootstrap: str, topic: str, options: Options) -> float:
    from strandline import Consumer

    async with Consumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        count = volume = 0
        started = time.perf_counter()
        while count < options.records:
            found = await consumer.getmany(timeout_ms=STALL_S * 1000)
            if not found:
                raise SystemExit(f"error: {count} of {options.records} records came, then none")
            for records in found.values():
                count += len(records)
                volume += sum(len(record.value or b"") for record in records)
        taken_s = time.perf_counter() - started
    assert count == options.records, (count, options.records)
    assert volume == count * options.record_size, (volume, count)
    return count / taken_s
