"""The times of requests: the buckets, the quantiles of the last minutes, and the metrics."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.common.request_times import (
    BUCKETS,
    QUANTILES,
    SHORTEST_S,
    SNAPSHOT_S,
    WINDOW_S,
    Phase,
    RequestTimes,
    Times,
    end_of,
    error_name,
    quantile,
)
from support.hand_clock import HandClock


def place_of(seconds: float) -> int:
    times = Times()
    times.observe(seconds)
    return times.counts.index(1)


@pytest.mark.parametrize(
    "seconds", [0.00004, 0.0001, 0.0009, 0.001, 0.0035, 0.02, 0.5, 0.999, 1.0, 7.3, 31.0, 63.0]
)
def test_a_time_lies_within_its_bucket_which_is_a_quarter_wide_at_most(seconds: float) -> None:
    place = place_of(seconds)
    assert end_of(place - 1) <= seconds < end_of(place)
    assert end_of(place) <= 1.25 * end_of(place - 1)


def test_times_out_of_range_are_in_the_outer_buckets() -> None:
    assert [place_of(t) for t in (-1.0, 0.0, 1e-9, SHORTEST_S)] == [0] * 4
    assert place_of(2.0**-14) == 4
    assert [place_of(t) for t in (63.9, 64.0, 1e6)] == [BUCKETS - 2, BUCKETS - 1, BUCKETS - 1]


def test_quantiles_are_those_of_the_times_within_the_width_of_a_bucket() -> None:
    times = Times()
    for ms in range(1, 1001):
        times.observe(ms / 1000)
    for q in (0.5, 0.75, 0.95, 0.99, 0.999):
        assert quantile(times.counts, q) == pytest.approx(q, rel=0.13)
    assert quantile([0] * BUCKETS, 0.99) == 0.0


class Shown:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.times = RequestTimes(self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(self.times)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def quantile(self, q: str, request: str = "Produce") -> float:
        name = "kafka_network_requestmetrics_totaltimems"
        found = self(name, request=request, quantile=q)
        assert found is not None
        return found


def test_a_kind_of_request_that_none_has_sent_is_not_shown() -> None:
    shown = Shown()
    shown.times.of("Produce")
    assert shown("strandline_request_seconds_count", request="Produce") is None
    shown.times.of("Produce").observe(0.003)
    assert shown("strandline_request_seconds_count", request="Produce") == 1
    assert shown("strandline_request_seconds_sum", request="Produce") == 0.003
    assert shown("kafka_network_requestmetrics_totaltimems_count", request="Produce") == 1
    assert shown("kafka_network_requestmetrics_totaltimems_sum", request="Produce") == 3


def test_the_histogram_is_cumulative_with_a_bucket_for_each_power_of_two() -> None:
    shown = Shown()
    for seconds in (0.1, 0.2, 0.3, 100.0):
        shown.times.of("Fetch").observe(seconds)
    name = "strandline_request_seconds_bucket"
    counts = [shown(name, request="Fetch", le=le) for le in ("0.125", "0.25", "0.5", "64.0")]
    assert counts == [1, 2, 3, 3]
    assert shown(name, request="Fetch", le="+Inf") == 4


def test_quantiles_forget_what_is_older_than_the_window() -> None:
    shown = Shown()
    produce = shown.times.of("Produce")
    for _ in range(100):
        produce.observe(1.0)
    assert shown.quantile("0.50") == pytest.approx(1000, rel=0.25)
    shown.clock.now_s += WINDOW_S + SNAPSHOT_S
    for _ in range(100):
        produce.observe(0.001)
    assert shown.quantile("0.999") == pytest.approx(1, rel=0.25)
    assert shown("kafka_network_requestmetrics_totaltimems_count", request="Produce") == 200
    for q in QUANTILES:
        assert shown.quantile(q) == pytest.approx(1, rel=0.25)


def test_the_snapshots_of_frequent_scrapes_are_bounded() -> None:
    shown = Shown()
    shown.times.of("Produce").observe(0.1)
    for _ in range(1_000):
        shown.clock.now_s += 1.0
        shown.quantile("0.50")
    assert len(shown.times._snapshots) <= WINDOW_S / SNAPSHOT_S + 2


def test_requests_of_kafkas_protocol_have_their_version_and_others_none() -> None:
    shown = Shown()
    for _ in range(3):
        shown.times.of("Produce").observe(0.001)
    shown.times.count_version("Produce", 9)
    shown.times.of("FetchConsumer").observe(0.001)
    shown.times.count_version("Fetch", 12)
    shown.times.of("FetchFollower").observe(0.001)
    name = "kafka_network_requestmetrics_requests_total"
    assert shown(name, request="Produce", version="9") == 1
    assert shown(name, request="Produce", version="") == 2
    assert shown(name, request="Fetch", version="12") == 1
    assert shown(name, request="Fetch", version="") == 1
    assert shown("strandline_request_seconds_count", request="Fetch") == 2


def test_each_phase_has_a_metric_of_its_own_and_fetches_are_summed() -> None:
    shown = Shown()
    for phase, ms in zip(Phase, (31, 1, 2, 4, 8), strict=True):
        for request in ("FetchConsumer", "FetchFollower"):
            shown.times.of(request, phase).observe(ms / 1000)
    prefix = "kafka_network_requestmetrics"
    for name, ms in (
        ("total", 31),
        ("requestqueue", 1),
        ("local", 2),
        ("remote", 4),
        ("responsequeue", 8),
    ):
        metric = f"{prefix}_{name}timems"
        assert shown(f"{metric}_sum", request="FetchConsumer") == ms
        assert shown(f"{metric}_count", request="FetchConsumer") == 1
        assert shown(f"{metric}_sum", request="Fetch") == 2 * ms
        assert shown(metric, request="Fetch", quantile="0.99") == pytest.approx(ms, rel=0.25)
    assert shown("strandline_request_seconds_sum", request="Fetch") == 0.062, "the total alone"


def test_errors_are_counted_by_request_under_kafkas_names() -> None:
    shown = Shown()
    shown.times.count_error("Produce", 6)
    shown.times.count_error("Produce", 6)
    shown.times.count_error("Produce", 10)
    shown.times.count_error("FetchConsumer", 1)
    shown.times.count_error("FetchFollower", 1)
    name = "kafka_network_requestmetrics_errors_total"
    assert shown(name, request="Produce", error="NOT_LEADER_OR_FOLLOWER") == 2
    assert shown(name, request="Produce", error="MESSAGE_TOO_LARGE") == 1
    assert shown(name, request="FetchFollower", error="OFFSET_OUT_OF_RANGE") == 1
    assert shown(name, request="Fetch", error="OFFSET_OUT_OF_RANGE") == 2
    assert shown(name, request="Produce", error="NONE") is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (17, "INVALID_TOPIC_EXCEPTION"),
        (56, "KAFKA_STORAGE_ERROR"),
        (9_999, "ERROR_9999"),
    ],
)
def test_the_names_of_errors_are_kafkas(code: int, name: str) -> None:
    assert error_name(code) == name
