"""The times that requests take, as histograms, and the metrics that show them.

A phase of a request costs a look at the clock and two additions. A scrape computes the rest: the
histogram of all requests since the start, and the quantiles of those of the last minutes.
"""

from __future__ import annotations

import enum
import re
from collections import deque
from math import frexp
from typing import TYPE_CHECKING, Final, TypeAlias

from strandline_proto.errors import ERRORS, InvalidTopic, RecordTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric, SummaryMetricFamily

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
KAFKA_NAMES: Final = {
    RecordTooLarge.code: "MESSAGE_TOO_LARGE",
    InvalidTopic.code: "INVALID_TOPIC_EXCEPTION",
}
"""The errors whose names in Kafka's metrics are not those of our classes in capitals."""
_PLACE_OF_ONE: Final = -EXPONENT_MIN * PARTS - PARTS


class Phase(enum.Enum):
    """A part of the time of a request, as Kafka divides it."""

    TOTAL = enum.auto()
    REQUEST_QUEUE = enum.auto()
    LOCAL = enum.auto()
    REMOTE = enum.auto()
    RESPONSE_QUEUE = enum.auto()


class Times:
    """The times of one kind of request."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        if seconds <= SHORTEST_S:
            place = 0
        else:
            # seconds = part * 2 ** exponent, 0.5 <= part < 1
            part, exponent = frexp(seconds)
            place = exponent * PARTS + int(part * (2 * PARTS)) + _PLACE_OF_ONE
            if place >= BUCKETS:
                place = BUCKETS - 1
        self.counts[place] += 1
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


_Counts: TypeAlias = "Mapping[tuple[Phase, str], Times]"


class RequestTimes:
    """A collector of the times of all kinds of requests of one server."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._times: dict[tuple[Phase, str], Times] = {}
        self._versions: dict[tuple[str, int], int] = {}
        self._errors: dict[tuple[str, int], int] = {}
        self._snapshots: deque[tuple[float, _Counts]] = deque()
        """Counts of earlier scrapes, oldest first: the first one is about a window old."""

    def of(self, request: str, phase: Phase = Phase.TOTAL) -> Times:
        """Returns the times of that kind of request, to be kept by the caller."""
        times = self._times.get((phase, request))
        if times is None:
            times = self._times[phase, request] = Times()
        return times

    def count_version(self, request: str, version: int) -> None:
        """Counts a request of Kafka's protocol."""
        key = (request, version)
        self._versions[key] = self._versions.get(key, 0) + 1

    def count_error(self, request: str, code: int) -> None:
        """Counts an error that an answer names, of one partition or of the whole request."""
        key = (request, code)
        self._errors[key] = self._errors.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics, at each scrape of the registry."""
        times = self._now()
        before = self._window(times)
        total = {name: each for (phase, name), each in times.items() if phase is Phase.TOTAL}
        yield _histogram(total)
        families = _summaries()
        for (phase, name), each in times.items():
            _add_quantiles(families[phase], name, each, before.get((phase, name)))
        yield from families.values()
        yield self._requests(total)
        yield self._of_errors()

    def _now(self) -> _Counts:
        found = sorted(self._times.items(), key=lambda entry: (entry[0][0].value, entry[0][1]))
        times = {key: each.copy() for key, each in found if any(each.counts)}
        for phase in Phase:
            fetches = [times[phase, name] for name in FETCHES if (phase, name) in times]
            if fetches:
                times[phase, "Fetch"] = both = Times()
                for each in fetches:
                    both.add(each)
        return times

    def _window(self, times: _Counts) -> _Counts:
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

    def _of_errors(self) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "kafka_network_requestmetrics_errors",
            "Errors in answers under Kafka's names: of Produce and Fetch for each partition, of the"
            " others for the whole request. Successes (NONE) do not count.",
            labels=["request", "error"],
        )
        both: dict[tuple[str, int], int] = {}
        for (name, code), count in self._errors.items():
            both[name, code] = count
            if name in FETCHES:
                both["Fetch", code] = both.get(("Fetch", code), 0) + count
        for (name, code), count in sorted(both.items()):
            family.add_metric([name, error_name(code)], count)
        return family


def error_name(code: int) -> str:
    """Kafka's name of an error, for instance NOT_LEADER_OR_FOLLOWER; ERROR_N for a code that no
    class has.
    """
    kind = ERRORS.get(code)
    if kind is None:
        return f"ERROR_{code}"
    return KAFKA_NAMES.get(code) or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()


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


def _summaries() -> dict[Phase, SummaryMetricFamily]:
    from prometheus_client.core import SummaryMetricFamily

    return {
        Phase.TOTAL: SummaryMetricFamily(
            "kafka_network_requestmetrics_totaltimems",
            "Time in milliseconds from a request's arrival to its answer, waits included; the"
            " quantiles are those of the last five minutes.",
            labels=["request"],
        ),
        Phase.REQUEST_QUEUE: SummaryMetricFamily(
            "kafka_network_requestmetrics_requestqueuetimems",
            "Part of that time which a request waits for earlier ones of its connection; only of"
            " Kafka's protocol.",
            labels=["request"],
        ),
        Phase.LOCAL: SummaryMetricFamily(
            "kafka_network_requestmetrics_localtimems",
            "Part of that time until a Produce's batches are appended, or a Fetch has been served"
            " or begins to wait for records.",
            labels=["request"],
        ),
        Phase.REMOTE: SummaryMetricFamily(
            "kafka_network_requestmetrics_remotetimems",
            "Part of that time which a Produce waits for its acks, or a Fetch for records.",
            labels=["request"],
        ),
        Phase.RESPONSE_QUEUE: SummaryMetricFamily(
            "kafka_network_requestmetrics_responsequeuetimems",
            "Part of that time which an answer waits for earlier ones of its connection; only of"
            " Kafka's protocol.",
            labels=["request"],
        ),
    }


def _add_quantiles(
    family: SummaryMetricFamily, name: str, times: Times, before: Times | None
) -> None:
    counts = times.since(before)
    for q in QUANTILES:
        labels = {"request": name, "quantile": q}
        family.add_sample(family.name, labels, 1000 * quantile(counts, float(q)))
    family.add_metric([name], sum(times.counts), 1000 * times.sum_s)
