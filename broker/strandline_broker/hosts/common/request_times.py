"""The times that requests take, as histograms, and the metrics that show them.

One request costs a look at the clock and two additions. A scrape computes the rest: the histogram
of all requests since the start, and the quantiles of those of the last minutes.
"""

from __future__ import annotations

from collections import deque
from math import frexp
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from strandline_runtime.runtime import Clock

PARTS: Final = 4
"""Buckets between two powers of two: a quantile is off by at most a quarter."""
EXPONENT_MIN: Final = -14
SHORTEST_S: Final = 2.0 ** (EXPONENT_MIN - 1)
"""Shorter times than this, 31 microseconds, share the first bucket."""
EXPONENT_MAX: Final = 6
"""Times from 2 ** EXPONENT_MAX s, 64 s, on share the last bucket."""
BUCKETS: Final = (EXPONENT_MAX - EXPONENT_MIN + 1) * PARTS + 1
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The quantiles of Kafka's histograms, in the spelling of the JMX exporter."""
WINDOW_S: Final = 300.0
SNAPSHOT_S: Final = 30.0
"""Time between two snapshots of the counts, which scrapes take."""
FETCHES: Final = ("FetchConsumer", "FetchFollower")
"""The kinds of Fetch requests, which Kafka counts as Fetch, too."""


class Times:
    """The times of one kind of request."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        # seconds = part * 2 ** exponent, 0.5 <= part < 1
        part, exponent = frexp(max(seconds, SHORTEST_S))
        place = (exponent - EXPONENT_MIN) * PARTS + int(part * 2 * PARTS) - PARTS
        self.counts[min(place, BUCKETS - 1)] += 1
        self.sum_s += seconds

    def copy(self) -> Times:
        copy = Times()
        copy.add(self)
        return copy

    def add(self, other: Times) -> None:
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum_s += other.sum_s

    def since(self, before: Times | None) -> list[int]:
        """Returns the counts of the requests after `before`."""
        if before is None:
            return self.counts
        return [now - then for now, then in zip(self.counts, before.counts, strict=True)]


def end_of(place: int) -> float:
    """The time in seconds at which the bucket ends."""
    exponent, part = divmod(place + 1, PARTS)
    return float((PARTS + part) / (2 * PARTS) * 2.0 ** (exponent + EXPONENT_MIN))


def quantile(counts: list[int], q: float) -> float:
    """The time in seconds that the share `q` of the requests did not exceed; 0 without requests.

    Within a bucket, times are taken to be spread evenly.
    """
    total = sum(counts)
    rank, seen = q * total, 0
    for place, count in enumerate(counts):
        if count > 0 and seen + count >= rank:
            begin = end_of(place - 1) if place > 0 else 0.0
            return begin + (end_of(place) - begin) * (rank - seen) / count
        seen += count
    return 0.0


class RequestTimes:
    """A collector of the times of all kinds of requests of one server."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._times: dict[str, Times] = {}
        self._versions: dict[tuple[str, int], int] = {}
        self._snapshots: deque[tuple[float, Mapping[str, Times]]] = deque()
        """Counts of earlier scrapes, oldest first: the first one is about a window old."""

    def of(self, request: str) -> Times:
        """Returns the times of that kind of request, to be kept by the caller."""
        times = self._times.get(request)
        if times is None:
            times = self._times[request] = Times()
        return times

    def count_version(self, request: str, version: int) -> None:
        """Counts a request of Kafka's protocol."""
        key = (request, version)
        self._versions[key] = self._versions.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics, at each scrape of the registry."""
        times = self._now()
        before = self._window(times)
        yield _histogram(times)
        yield _quantiles(times, before)
        yield self._requests(times)

    def _now(self) -> dict[str, Times]:
        times = {
            name: each.copy() for name, each in sorted(self._times.items()) if any(each.counts)
        }
        fetches = [times[name] for name in FETCHES if name in times]
        if fetches:
            times["Fetch"] = both = Times()
            for each in fetches:
                both.add(each)
        return times

    def _window(self, times: Mapping[str, Times]) -> Mapping[str, Times]:
        """Returns the counts at the begin of the window; none for one that is as old as the
        process.
        """
        now_s, snapshots = self.clock.monotonic(), self._snapshots
        while len(snapshots) > 1 and snapshots[1][0] <= now_s - WINDOW_S:
            snapshots.popleft()
        if not snapshots or now_s - snapshots[-1][0] >= SNAPSHOT_S:
            snapshots.append((now_s, times))
        taken_s, before = snapshots[0]
        return before if taken_s <= now_s - WINDOW_S else {}

    def _requests(self, times: Mapping[str, Times]) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "kafka_network_requestmetrics_requests",
            "Requests that were answered. `version` is that of Kafka's protocol, empty for gRPC.",
            labels=["request", "version"],
        )
        by_kafka: dict[str, int] = {}
        for (name, version), count in sorted(self._versions.items()):
            family.add_metric([name, str(version)], count)
            by_kafka[name] = by_kafka.get(name, 0) + count
        for name, each in times.items():
            of_grpc = sum(each.counts) - by_kafka.get(name, 0)
            if of_grpc > 0:
                family.add_metric([name, ""], of_grpc)
        return family


def _histogram(times: Mapping[str, Times]) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(
        "strandline_request_seconds",
        "Time from a request's arrival to its answer, waits included.",
        labels=["request"],
    )
    for name, each in times.items():
        family.add_metric([name], list(_cumulative(each.counts)), each.sum_s)
    return family


def _cumulative(counts: Iterable[int]) -> Iterator[tuple[str, float]]:
    """Yields the buckets of a Prometheus histogram, one for each power of two."""
    total = 0
    for place, count in enumerate(counts):
        total += count
        if place == BUCKETS - 1:
            yield "+Inf", total
        elif place % PARTS == PARTS - 1:
            yield str(end_of(place)), total


def _quantiles(times: Mapping[str, Times], before: Mapping[str, Times]) -> Metric:
    from prometheus_client.core import SummaryMetricFamily

    family = SummaryMetricFamily(
        "kafka_network_requestmetrics_totaltimems",
        "Time in milliseconds from a request's arrival to its answer, waits included; the quantiles"
        " are those of the last five minutes.",
        labels=["request"],
    )
    for name, each in times.items():
        counts = each.since(before.get(name))
        for q in QUANTILES:
            labels = {"request": name, "quantile": q}
            family.add_sample(family.name, labels, 1000 * quantile(counts, float(q)))
        family.add_metric([name], sum(each.counts), 1000 * each.sum_s)
    return family
