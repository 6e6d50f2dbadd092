"""Bulk reads by FetchRange: all partitions at once, as Spark's tasks read, each message left
undecoded.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.report import Report, median
from strandline_bench.target import Target, fresh_topic, running

if TYPE_CHECKING:
    from strandline_proto.hot_messages import FetchRangeRequest
    from strandline_spark.cluster.cluster import Leader

MESSAGE_BYTES: Final = 2 << 20
ROUND_S: Final = 300.0


def run(options: Options, report: Report) -> None:
    import uvloop

    with running(options) as target:
        uvloop.run(_rounds(target, options, report))


async def _rounds(target: Target, options: Options, report: Report) -> None:
    from strandline import Producer

    rates, brokers_us_row = [], []
    async with fresh_topic(target.bootstrap, "bench-ranges", options) as topic:
        async with Producer(
            target.bootstrap,
            acks="all",
            compression_type=None if options.compression == "none" else options.compression,
            batch_size=options.batch_size,
        ) as producer:
            result = await producer.send_many(topic, payloads(options.records, options.record_size))
            assert result.acknowledged == options.records, result
        ranges = await asyncio.to_thread(_ranges, target.bootstrap, topic)
        for number in range(options.rounds + 1):  # the first one warms up and does not count
            used_s = target.brokers_cpu_s()
            started = time.perf_counter()
            async with asyncio.timeout(ROUND_S), asyncio.TaskGroup() as group:
                readers = [group.create_task(asyncio.to_thread(_read, *one)) for one in ranges]
            taken_s = time.perf_counter() - started
            used_s = target.brokers_cpu_s() - used_s
            assert sum(reader.result() for reader in readers) == options.records, readers
            if number > 0:
                rates.append(options.records / taken_s)
                brokers_us_row.append(used_s * 1e6 / options.records)
    report.measured(
        "ranges",
        {
            "mb_s": median(rates) * options.record_size / 1e6,
            "records_s": median(rates),
            **({"brokers_cpu_us_per_row": median(brokers_us_row)} if target.pids else {}),
            "rounds": len(rates),
        },
    )


def _ranges(bootstrap: str, topic: str) -> "list[tuple[Leader, FetchRangeRequest]]":
    """All that each partition has, and its leader."""
    from strandline_proto.hot_messages import FetchRangeRequest
    from strandline_spark.cluster.cluster import Cluster

    cluster = Cluster(bootstrap.split(","))
    marks = cluster.marks(cluster.leaders([topic]))
    return [
        (
            mark.leader,
            FetchRangeRequest(
                topic_id=mark.topic_id,
                partition=tp.partition,
                current_leader_epoch=mark.epoch,
                stop_offset=mark.high_watermark,
                max_message_bytes=MESSAGE_BYTES,
            ),
        )
        for tp, mark in marks.items()
    ]


def _read(leader: "Leader", request: "FetchRangeRequest") -> int:
    """The number of offsets in the messages of a range."""
    from strandline_proto.errors import NONE, from_code
    from strandline_spark.cluster.range_calls import messages_of

    offset = request.start_offset
    for message in messages_of(leader, request):
        if message.error_code != NONE:
            raise from_code(message.error_code, message.error_message)
        offset = message.next_offset
    return offset - request.start_offset
