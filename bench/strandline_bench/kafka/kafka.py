"""Strandline and Apache Kafka side by side by Kafka's protocol, in alternating rounds.

Each round measures a part on one side, then on the other. A part's figure is the median of its
rounds. Beside it stand the brokers' processor time and what bounds the figure: the processor, if
the machine had less than a tenth of its cores idle, otherwise a wait.
"""

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from strandline_bench.kafka.options import PARTS, KafkaOptions
from strandline_bench.kafka.sides import Side, sides
from strandline_bench.kafka.workload import Workload
from strandline_bench.processes import Usage, usage
from strandline_bench.report import Report, median, percentile

SIZES: Final = {"produce_1kb": 1000, "produce_100b": 100}
SMALL_SHARE: Final = 4
"""Bytes of 1 KB records for each byte of 100 B records."""
GROUPS: Final = {"group_classic": "classic", "group_consumer": "consumer"}
BUSY_SHARE: Final = 0.9
IN_SYNC_S: Final = 120.0
Rounds = dict[str, list[float]]
T = TypeVar("T")


@dataclass(slots=True)
class Measured:
    """The figures of one part on one side, one of each round."""

    rounds: Rounds = field(default_factory=lambda: defaultdict(list))
    bounds: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, float | int | str]:
        figures: dict[str, float | int | str] = {
            name: median(values) for name, values in self.rounds.items()
        }
        if self.bounds:
            figures["bound_by"] = max(set(self.bounds), key=self.bounds.count)
        return figures


def run(options: KafkaOptions, report: Report) -> None:
    with sides(options) as found:
        bench = _Bench(options, found)
        for part in options.only:
            bench.measure(part, report)


class _Bench:
    def __init__(self, options: KafkaOptions, found: list[Side]) -> None:
        self._options = options
        self._sides = found
        self._work = {side.name: Workload(side.bootstrap, options.brokers) for side in found}

    def measure(self, part: str, report: Report) -> None:
        """Measures a part in alternating rounds, and reports each side and their ratios."""
        measured = {side.name: Measured() for side in self._sides}
        for number in range(self._options.rounds):
            order = self._sides if number % 2 == 0 else list(reversed(self._sides))
            for side in order:
                self._round(part, side, measured[side.name])
        for name, each in measured.items():
            report.measured(f"{name}_{part}", each.summary())
        if len(measured) > 1:
            ours, theirs = (each.rounds for each in measured.values())
            ratios = {
                f"{name}_ratio": median(values) / median(theirs[name])
                for name, values in ours.items()
                if median(theirs[name]) > 0
            }
            report.measured(f"ratio_{part}", dict(ratios))

    def _round(self, part: str, side: Side, into: Measured) -> None:
        work = self._work[side.name]
        partitions = 1 if part in ("latency", "failover") else self._options.partitions
        topic = work.new_topic(partitions)
        try:
            if part in SIZES:
                self._produce(work, topic, SIZES[part], side, into)
            elif part == "consume":
                self._consume(work, topic, side, into)
            elif part == "latency":
                taken = self._used(
                    side, into, 0, lambda: work.latencies_ms(topic, self._options.records)
                )
                into.rounds["ms_p50"].append(percentile(taken, 0.5))
                into.rounds["ms_p99"].append(percentile(taken, 0.99))
            elif part in GROUPS:
                work.produce_s(topic, partitions, 100, 10 * partitions)
                into.rounds["first_record_s"].append(work.first_record_s(topic, GROUPS[part]))
            else:
                assert part == "failover", PARTS
                into.rounds["failover_s"].append(_failover_s(work, topic, side))
        finally:
            with contextlib.suppress(Exception):
                work.delete_topic(topic)

    def _produce(self, work: Workload, topic: str, size: int, side: Side, into: Measured) -> None:
        megabytes = self._options.megabytes / (1 if size == SIZES["produce_1kb"] else SMALL_SHARE)
        count = int(megabytes * 1e6 / size)
        took = self._used(
            side,
            into,
            megabytes,
            lambda: work.produce_s(topic, self._options.partitions, size, count),
        )
        into.rounds["mb_s"].append(megabytes / took)
        into.rounds["records_s"].append(count / took)

    def _consume(self, work: Workload, topic: str, side: Side, into: Measured) -> None:
        partitions, megabytes = self._options.partitions, self._options.megabytes
        count = megabytes * 1000
        work.produce_s(topic, partitions, 1000, count)
        took = self._used(side, into, megabytes, lambda: work.consume_s(topic, partitions, count))
        into.rounds["mb_s"].append(megabytes / took)

    def _used(self, side: Side, into: Measured, megabytes: float, work: Callable[[], T]) -> T:
        """Runs the work, and keeps the processor time of the side's brokers meanwhile."""
        pids = side.pids()
        before, began = usage(pids), time.monotonic()
        result = work()
        took, used = time.monotonic() - began, usage(pids).since(before)
        if megabytes:
            into.rounds["brokers_cpu_ms_mb"].append(used.brokers * 1e3 / megabytes)
        into.bounds.append(_bound(used, took))
        return result


def _bound(used: Usage, took_s: float) -> str:
    """The resource that the figure depends on."""
    cores = len(os.sched_getaffinity(0))
    if used.busy < BUSY_SHARE * cores * took_s:
        return "a wait (disk, network or timer)"
    shares = {"the brokers": used.brokers, "the client": used.python, "others": used.others}
    return f"the processor, most of it in {max(shares, key=lambda name: shares[name])}"


def _failover_s(work: Workload, topic: str, side: Side) -> float:
    """Seconds from SIGKILL of the leader to the next acknowledged record."""
    awaiting = work.awaiting(topic)
    victim = work.leader(topic)
    began = time.monotonic()
    side.kill(victim)
    awaiting.write_ms()
    took = time.monotonic() - began
    side.restart(victim)
    deadline = time.monotonic() + IN_SYNC_S
    while not work.all_in_sync(topic):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} is not in sync {IN_SYNC_S} s after a restart")
        time.sleep(0.1)
    return took
