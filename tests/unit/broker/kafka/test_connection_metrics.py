"""The connections of each Kafka listener, and how many it accepts in a second."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.kafka.connection_metrics import WINDOW_S, ConnectionMetrics, Occurrences
from support.hand_clock import HandClock

PREFIX = "kafka_server_socket_server_metrics_connection"


def test_the_rate_is_that_of_this_window_and_the_one_before() -> None:
    seen = Occurrences()
    assert seen.rate(0.0) == 0.0
    for _ in range(60):
        seen.note(0.0)
    assert seen.rate(0.0) == 60 / WINDOW_S
    assert seen.rate(15.0) == 60 / (15 + WINDOW_S)
    assert seen.rate(WINDOW_S + 15) == 60 / (15 + WINDOW_S), "the window before counts"
    assert seen.rate(2 * WINDOW_S) == 0.0
    seen.note(100 * WINDOW_S + 1)
    assert seen.rate(100 * WINDOW_S + 1) == pytest.approx(1 / (1 + WINDOW_S))
    assert seen.total == 61


def test_each_listener_shows_its_own_connections() -> None:
    clock, registry = HandClock(), CollectorRegistry()
    first, second = Occurrences(), Occurrences()
    for _ in range(3):
        first.note(clock.now_s)
    listeners: Any = [
        SimpleNamespace(name="PLAINTEXT", open=2, opened=first),
        SimpleNamespace(name="OUTSIDE", open=0, opened=second),
    ]
    registry.register(cast("Any", ConnectionMetrics(clock, listeners)))

    def shown(name: str, listener: str) -> float | None:
        labels = {"listener": listener, "networkProcessor": "0"}
        return registry.get_sample_value(f"{PREFIX}_{name}", labels)

    assert [shown("count", each.name) for each in listeners] == [2, 0]
    assert [shown("creation_total", each.name) for each in listeners] == [3, 0]
    assert [shown("creation_rate", each.name) for each in listeners] == [3 / WINDOW_S, 0]
