"""The benchmark of transactions on Strandline and on Apache Kafka, in alternating rounds.

Each round measures a part on one side, then on the other; librdkafka is the load of both.
Strandline's own client is measured right after librdkafka, on the same cluster. The figure of a
part is the median of its rounds.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_bench.kafka.kafka import Rounds
from strandline_bench.kafka.sides import Side, Strandline, sides
from strandline_bench.kafka.workload import Workload
from strandline_bench.report import Report, median, percentile
from strandline_bench.transactions import load, own_client
from strandline_bench.transactions.librdkafka import Transacting
from strandline_bench.transactions.options import ALONE, PARTS, TransactionsOptions

if TYPE_CHECKING:
    from strandline.types import IsolationLevel

Reader = Callable[[str, int, int, "IsolationLevel"], float]
OWN: Final = "strandline_client"
RECORDS_OF_MEGABYTE: Final = 1000
Figures = dict[str, float]


def run(options: TransactionsOptions, report: Report) -> None:
    if ALONE in options.only:
        load.run(options.rounds, report)
    parts = [part for part in options.only if part != ALONE]
    if not parts:
        return
    with sides(options) as found:
        bench = _Bench(options, found)
        for part in parts:
            bench.measure(part, report)


class _Bench:
    def __init__(self, options: TransactionsOptions, found: list[Side]) -> None:
        self._options = options
        self._sides = found
        self._topics = {side.name: Workload(side.bootstrap, options.brokers) for side in found}
        self._load = {side.name: Transacting(side.bootstrap) for side in found}

    def measure(self, part: str, report: Report) -> None:
        """Measures a part in alternating rounds, and reports each side and their ratios."""
        measured: dict[str, Rounds] = {}
        for number in range(self._options.rounds):
            for side in self._sides if number % 2 == 0 else reversed(self._sides):
                for name, figures in self._round(part, side).items():
                    into = measured.setdefault(name, defaultdict(list))
                    for figure, value in figures.items():
                        into[figure].append(value)
        for name in sorted(measured, reverse=True):
            medians = {figure: median(values) for figure, values in measured[name].items()}
            report.measured(f"{name}_{part}", dict(medians))
        for name in ("strandline", OWN):
            if name in measured and "kafka" in measured:
                report.measured(f"ratio_{name}_{part}", ratios(measured[name], measured["kafka"]))

    def _round(self, part: str, side: Side) -> dict[str, Figures]:
        """The figures of a round by the name of the side, or of Strandline's own client."""
        if part == "one_partition":
            return self._begin_to_commit(side, 1)
        if part == "all_partitions":
            return self._begin_to_commit(side, self._options.partitions)
        if part == "share_of_plain":
            return self._share_of_plain(side)
        assert part == "read_committed", PARTS
        return self._read_committed(side)

    def _begin_to_commit(self, side: Side, partitions: int) -> dict[str, Figures]:
        options = self._options
        with self._topic(side, partitions) as topic:
            taken = self._load[side.name].begin_to_commit_ms(
                topic, partitions, producers=options.producers, count=options.records
            )
            found = {side.name: _of_times(taken)}
            if isinstance(side, Strandline):
                taken = own_client.begin_to_commit_ms(
                    side.grpc_bootstrap,
                    topic,
                    partitions,
                    producers=options.producers,
                    count=options.records,
                )
                found[OWN] = _of_times(taken)
        return found

    def _share_of_plain(self, side: Side) -> dict[str, Figures]:
        load = self._load[side.name]
        found = {side.name: self._share(side, load.plain_s, load.committed_s)}
        if isinstance(side, Strandline):
            address = side.grpc_bootstrap
            found[OWN] = self._share(
                side,
                lambda *what: own_client.plain_s(address, *what),
                lambda *what: own_client.committed_s(address, *what),
            )
        return found

    def _share(
        self,
        side: Side,
        plain: Callable[[str, int, int], float],
        committed: Callable[[str, int, int], float],
    ) -> Figures:
        partitions, megabytes = self._options.partitions, self._options.megabytes
        count = megabytes * RECORDS_OF_MEGABYTE
        took = {}
        for name, work in (("plain", plain), ("committed", committed)):
            with self._topic(side, partitions) as topic:
                took[name] = work(topic, partitions, count)
        return {
            "plain_mb_s": megabytes / took["plain"],
            "committed_mb_s": megabytes / took["committed"],
            "share_of_plain": took["plain"] / took["committed"],
        }

    def _read_committed(self, side: Side) -> dict[str, Figures]:
        """The bytes of the log that a reader takes a second, aborted ones among them, relative to
        a log with batches of the same size and without transactions.
        """
        load, partitions = self._load[side.name], self._options.partitions
        count = self._options.megabytes * RECORDS_OF_MEGABYTE
        rates: dict[str, Figures] = defaultdict(dict)
        with self._topic(side, partitions) as topic:
            records = load.fill_plain(topic, partitions, count)
            for name, read_s in self._readers(side).items():
                took = read_s(topic, partitions, records, "read_uncommitted")
                rates[name]["plain_mb_s"] = records / took / RECORDS_OF_MEGABYTE
        with self._topic(side, partitions) as topic:
            committed = load.fill_with_a_tenth_aborted(topic, partitions, count)
            for name, read_s in self._readers(side).items():
                took = read_s(topic, partitions, committed, "read_committed")
                rate = records / took / RECORDS_OF_MEGABYTE
                rates[name]["committed_mb_s"] = rate
                rates[name]["share_of_plain"] = rate / rates[name]["plain_mb_s"]
        return rates

    def _readers(self, side: Side) -> dict[str, Reader]:
        found: dict[str, Reader] = {side.name: self._load[side.name].read_s}
        if isinstance(side, Strandline):
            found[OWN] = partial(own_client.read_s, side.grpc_bootstrap)
        return found

    @contextlib.contextmanager
    def _topic(self, side: Side, partitions: int) -> Iterator[str]:
        name = self._topics[side.name].new_topic(partitions)
        try:
            yield name
        finally:
            with contextlib.suppress(Exception):
                self._topics[side.name].delete_topic(name)


def ratios(ours: Rounds, theirs: Rounds) -> dict[str, float | int | str]:
    """Our medians relative to theirs, of every figure that both have."""
    return {
        f"{figure}_ratio": median(values) / median(theirs[figure])
        for figure, values in ours.items()
        if figure in theirs and median(theirs[figure]) > 0
    }


def _of_times(taken: list[float]) -> Figures:
    return {"ms_p50": percentile(taken, 0.5), "ms_p99": percentile(taken, 0.99)}
