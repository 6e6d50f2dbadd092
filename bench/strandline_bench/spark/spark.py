"""`strandline bench spark`: rows a second that Spark reads from us, beside its Kafka connector."""

import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_bench import loop
from strandline_bench.payloads import changes, clicks, compressible
from strandline_bench.peers.kafka import KafkaPeer
from strandline_bench.processes import Usage, listening, usage
from strandline_bench.report import Report, median, rounded
from strandline_bench.spark import phases as spark_phases
from strandline_bench.spark.options import LARGE, SMALL, SparkOptions
from strandline_bench.spark.peer import connector_jars
from strandline_bench.spark.sides import (
    Kafka,
    Ours,
    Side,
    Taken,
    end_session,
    fill,
    fill_kafka,
)
from strandline_bench.target import Target, own_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JSON_SINKS: Final = ("silver",)
"""Sinks that need values to parse."""
STATE_SINKS: Final = ("state",)
"""Sinks that need values of few keys. No peer has such a sink: they have a rate as floor."""
STATE_RECORDS_MAX: Final = 1_000_000
STATE_FLOOR_ROWS_S: Final = 100_000
OTHERS_CORES_MAX: Final = 0.3
REPEATS_MAX: Final = 3
FLOORS: Final = {
    ("noop", SMALL): (4.0, 6.0),
    ("noop", LARGE): (2.0, 3.0),
    ("delta", SMALL): (5.0, 6.0),
    ("delta", LARGE): (2.0, 3.0),
    ("parquet", SMALL): (2.5, 3.0),
    ("parquet", LARGE): (1.2, 1.7),
    ("silver", SMALL): (2.0, 3.0),
    ("silver", LARGE): (1.5, 2.0),
}
"""The minimum of each ratio, and its target."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One side in one round."""

    rows_s: float
    taken: Taken
    used: Usage


@dataclass(frozen=True, slots=True)
class _Round:
    runs: dict[str, _Run]
    others_cores: float
    repeats: int


@dataclass(frozen=True, slots=True)
class _Rig:
    spark: "SparkSession"
    target: Target
    brokers: frozenset[int]
    """The processes of both clusters."""
    options: SparkOptions
    report: Report


def run(options: SparkOptions, report: Report) -> int:
    """Run the measure; the exit status is 1 if a ratio is below its minimum."""
    missed = False
    with _rig(options, report) as rig:
        for size, count, sinks in _topics(options):
            with _sides(rig, size, count, sinks) as sides:
                _check_and_warm(rig, sides, count, sinks)
                used: dict[str, Usage] = {}
                for sink in sinks:
                    rounds = [_round(rig, sides, sink, count, n) for n in range(options.rounds)]
                    missed |= _tell(report, sink, size, rounds)
                    for name in sides:
                        _tell_cpu(report, sink, size, name, count, rounds)
                    used[sink] = _median([one.runs["ours"].used for one in rounds])
                ours = sides["ours"]
                plain = sinks not in (JSON_SINKS, STATE_SINKS)
                if options.phases and isinstance(ours, Ours) and plain:
                    spark_phases.tell(report, rig.spark, ours, size, used)
    return int(missed)


def _topics(options: SparkOptions) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Size and number of records, and the sinks that they go to."""
    for size, count in options.records.items():
        plain = tuple(s for s in options.sinks if s not in JSON_SINKS + STATE_SINKS)
        for sinks in (plain, JSON_SINKS):
            if sinks and set(sinks) <= set(options.sinks):
                yield size, count, sinks
    if set(STATE_SINKS) <= set(options.sinks):
        size, count = next(iter(options.records.items()))
        yield size, min(count, STATE_RECORDS_MAX), STATE_SINKS


@contextlib.contextmanager
def _rig(options: SparkOptions, report: Report) -> Iterator[_Rig]:
    from strandline_spark.spark.session import start_session

    jars = options.peer_jars
    if options.peer_kafka is not None and jars is None:
        jars = connector_jars()
    with own_running(options) as target, tempfile.TemporaryDirectory() as folder:
        ports = [int(a.rpartition(":")[2]) for a in (options.peer_kafka or "").split(",") if a]
        brokers = frozenset((*target.pids, *target.controllers, *listening(ports)))
        spark = start_session(
            "strandline bench spark",
            master=options.master,
            memory=options.memory,
            log_path=f"{folder}/spark.log",
            direct=False,
            jars=jars,
        )
        try:
            yield _Rig(spark, target, brokers, options, report)
        finally:
            end_session(spark)


@contextlib.contextmanager
def _sides(rig: _Rig, size: int, count: int, sinks: tuple[str, ...]) -> Iterator[dict[str, Side]]:
    """Both filled with the same records; Kafka's topic is deleted at the end."""
    options, bootstrap = rig.options, rig.target.bootstrap
    topic = f"bench-spark-{size}-{secrets.token_hex(4)}"
    _progress(f"{count:,} records of {size} bytes into {options.partitions} partitions")
    values = compressible
    if sinks in (JSON_SINKS, STATE_SINKS):
        values = clicks if sinks == JSON_SINKS else changes
    loop.run(fill(bootstrap, topic, size, count, options, values))
    sides: dict[str, Side] = {"ours": Ours(bootstrap, topic, count)}
    if options.peer_kafka is None or sinks == STATE_SINKS:
        yield sides
        return
    kafka = KafkaPeer(options.peer_kafka, replication_factor=options.replication_factor)
    try:
        _progress("the same into Kafka")
        name = fill_kafka(kafka, size, count, options, values)
        yield {**sides, "peer": Kafka(options.peer_kafka, name)}
    finally:
        kafka.close()


def _check_and_warm(rig: _Rig, sides: dict[str, Side], count: int, sinks: tuple[str, ...]) -> None:
    """Both hold what they should, and the JVM has compiled both of their paths."""
    for name, side in sides.items():
        found = side.frame(rig.spark).count()
        assert found == count, f"{name}: {found} rows, not {count}"
        for sink in sinks:
            side.run(rig.spark, sink)


def _round(rig: _Rig, sides: dict[str, Side], sink: str, count: int, number: int) -> _Round:
    """One action of each side, who goes first alternates. Run again while others are busy."""
    order = list(sides) if number % 2 == 0 else list(reversed(sides))
    repeats = 0
    while True:
        runs, wall_s, others_s = {}, 0.0, 0.0
        for name in order:
            before, began = usage(rig.brokers), time.perf_counter()
            taken = sides[name].run(rig.spark, sink)
            used, whole_s = usage(rig.brokers).since(before), time.perf_counter() - began
            runs[name] = _Run(count / taken.action_s, taken, used)
            wall_s, others_s = wall_s + whole_s, others_s + used.others
        others_cores = others_s / wall_s
        if others_cores <= OTHERS_CORES_MAX or repeats == REPEATS_MAX:
            return _Round(runs, others_cores, repeats)
        repeats += 1
        _progress(f"round {number + 1} of {sink}: others used {others_cores:.2f} cores; once more")


def _tell(report: Report, sink: str, size: int, rounds: list[_Round]) -> bool:
    """Print the figures; True if a ratio is below its minimum."""
    rates = {name: median([one.runs[name].rows_s for one in rounds]) for name in rounds[0].runs}
    fields: dict[str, object] = {
        "record_size": size,
        "sink": sink,
        "ours_rows_s": round(rates["ours"]),
    }
    missed = False
    if "peer" in rates:
        ratios = [one.runs["ours"].rows_s / one.runs["peer"].rows_s for one in rounds]
        floor, aim = FLOORS[sink, size]
        missed = median(ratios) < floor
        fields |= {
            "peer_rows_s": round(rates["peer"]),
            "ratio": round(median(ratios), 2),
            "ratio_min": round(min(ratios), 2),
            "ratio_max": round(max(ratios), 2),
            "floor": floor,
            "aim": aim,
            "missed": missed,
        }
    if sink in STATE_SINKS:
        missed = rates["ours"] < STATE_FLOOR_ROWS_S
        steps = median([one.runs["ours"].taken.step_s for one in rounds])
        fields |= {"step_s": round(steps, 2), "floor": STATE_FLOOR_ROWS_S, "missed": missed}
    if sink in ("delta", "silver", "state"):
        fields["ours_start_s"] = round(
            median([one.runs["ours"].taken.start_s for one in rounds]), 3
        )
    busy = sum(one.others_cores > OTHERS_CORES_MAX for one in rounds)
    report.put(
        "spark",
        {
            **fields,
            "rounds": len(rounds),
            "repeated": sum(one.repeats for one in rounds),
            "busy_rounds": busy,
            "others_cores": round(median([one.others_cores for one in rounds]), 2),
        },
    )
    return missed


def _tell_cpu(
    report: Report, sink: str, size: int, side: str, count: int, rounds: list[_Round]
) -> None:
    """Microseconds of a core for each row."""
    used = _median([one.runs[side].used for one in rounds])
    groups = ("jvm", "python", "brokers", "others")
    report.put(
        "spark-cpu",
        {
            "record_size": size,
            "sink": sink,
            "side": side,
            **{
                f"{group}_us_per_row": rounded("us", getattr(used, group) * 1e6 / count)
                for group in groups
            },
        },
    )


def _median(used: list[Usage]) -> Usage:
    """Each group's."""
    return Usage(*(median([getattr(one, each) for one in used]) for each in Usage.__slots__))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
