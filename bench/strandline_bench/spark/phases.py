"""The cost of a row in each phase of its way, and each phase's share.

The cost of brokers and JVM is what their processes used in the rounds. The worker's phases are
timed in this process, which reads the same topic by the same code. CRC, decoding, copies and
Parquet are in seconds of a core; the wait for messages and the commit are in seconds. The rest of
Spark's micro-batch is `triggerExecution` without `addBatch`.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline_bench.processes import Usage
from strandline_bench.report import Report, rounded
from strandline_bench.spark.sides import COLUMNS, Ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.source.options import SourceOptions

WORKER: Final = ("fetch_wait", "crc", "decode", "copies")


def tell(
    report: Report, spark: "SparkSession", ours: Ours, size: int, used: Mapping[str, Usage]
) -> None:
    """Print one line for each phase of each sink that was measured."""
    for sink, used_s in used.items():
        read = _read(ours, direct=sink == "delta")
        spent = {"broker": used_s.brokers} | {phase: read[phase] for phase in WORKER}
        if sink == "delta":
            spent |= {"parquet": read["parquet"]} | _commits(spark, ours)
        elif "noop" not in used:
            spent["arrow_to_jvm_and_parquet"] = used_s.jvm
        elif sink == "noop":
            spent["arrow_to_jvm"] = used_s.jvm
        else:
            spent["arrow_to_jvm"] = used["noop"].jvm
            spent["parquet"] = max(0.0, used_s.jvm - used["noop"].jvm)
        whole = sum(spent.values())
        for phase, seconds in spent.items():
            fields = {"record_size": size, "sink": sink, "phase": phase}
            us_row = rounded("us", seconds * 1e6 / ours.records)
            report.put(
                "spark-phase", fields | {"us_per_row": us_row, "share": round(seconds / whole, 3)}
            )


def _read(ours: Ours, *, direct: bool) -> dict[str, float]:
    """Seconds of each of the worker's phases; with the files of the bronze job, if it is direct."""
    import tempfile

    from strandline_spark.bronze import range_file
    from strandline_spark.bronze import task_files as bronze_source
    from strandline_spark.source.options import parse_options
    from strandline_spark.source.planner import Planner

    given = {"bootstrap.servers": ours.bootstrap, "subscribe": ours.topic, "columns": COLUMNS}
    options = parse_options(given)
    spent = dict.fromkeys((*WORKER, "parquet"), 0.0)
    ranges = Planner(options).batch_ranges()
    # Modules are imported at the first record.
    _drain(options, replace(ranges[0], stop=ranges[0].start + 1))
    with _timed_reading(spent), tempfile.TemporaryDirectory() as folder:
        for planned in ranges:
            if direct:
                with _timed_methods(range_file.RangeFile, ("add", "close"), spent, "parquet"):
                    bronze_source.write_range(options, planned, folder, 0)
            else:
                _drain(options, planned)
    spent["copies"] -= spent["crc"] + spent["decode"]
    return spent


def _drain(options: "SourceOptions", planned: Any) -> None:
    from strandline_spark.source.ranges import RangeReader

    reader = RangeReader(
        planned, options.bootstrap, columns=options.columns, on_loss=options.on_loss
    )
    for _ in reader.batches():
        pass


@contextlib.contextmanager
def _timed_reading(spent: dict[str, float]) -> Iterator[None]:
    """`copies` gets all of the decoder's time."""
    from strandline_spark.cluster.range_calls import messages_of
    from strandline_spark.source import decode, ranges, row_walk

    def timed_messages(*args: Any) -> _TimedMessages:
        return _TimedMessages(messages_of(*args), spent)

    with contextlib.ExitStack() as stack:
        for owner, name, phase in (
            (decode, "crc_matches", "crc"),
            (row_walk, "rows", "decode"),
        ):
            stack.enter_context(_replaced(owner, name, _timed(getattr(owner, name), spent, phase)))
        stack.enter_context(_replaced(ranges, "messages_of", timed_messages))
        stack.enter_context(
            _replaced(
                decode.RangeDecoder, "decode", _timed_steps(decode.RangeDecoder.decode, spent)
            )
        )
        yield


class _TimedMessages:
    """The messages of a range, whose waits are measured by the clock."""

    def __init__(self, messages: Any, spent: dict[str, float]) -> None:
        self._messages = messages
        self._spent = spent

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter()
        try:
            return next(self._messages)
        finally:
            self._spent["fetch_wait"] += time.perf_counter() - began

    def close(self) -> None:
        self._messages.close()


def _timed(function: Callable[..., Any], spent: dict[str, float], phase: str) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*args)
        finally:
            spent[phase] += time.thread_time() - began

    return timed


def _timed_steps(function: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    """A generator that times its own steps, and not its consumer's."""

    def timed(*args: Any) -> Iterator[Any]:
        steps = function(*args)
        while True:
            began = time.thread_time()
            try:
                step = next(steps)
            except StopIteration:
                return
            finally:
                spent["copies"] += time.thread_time() - began
            yield step

    return timed


@contextlib.contextmanager
def _timed_methods(
    owner: Any, names: tuple[str, ...], spent: dict[str, float], phase: str
) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            timed = _timed(getattr(owner, name), spent, phase)
            stack.enter_context(_replaced(owner, name, timed))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _commits(spark: "SparkSession", ours: Ours) -> dict[str, float]:
    """Seconds of one micro-batch's commit to the table, and of what Spark does around it."""
    from strandline_spark.bronze.columns import BronzeTable

    spent = {"commit": 0.0}
    commit = BronzeTable.commit

    def timed(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return commit(*args)
        finally:
            spent["commit"] += time.perf_counter() - began

    with _replaced(BronzeTable, "commit", timed):
        taken = ours.run(spark, "delta")
    return spent | {"micro_batch": taken.around_s}
