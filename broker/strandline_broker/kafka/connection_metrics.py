"""The connections of Kafka's clients under the names of Kafka's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.core import Metric

    from strandline_broker.kafka.listener import KafkaListener
    from strandline_runtime.runtime import Clock

WINDOW_S: Final = 30.0
"""Length of a window of a rate, as in Kafka: the rate is that of this window and the one before."""


class Occurrences:
    """The number of things that happened, and how many a second."""

    __slots__ = ("_before", "_began_s", "_in_window", "total")

    def __init__(self) -> None:
        self.total = 0
        self._began_s: float | None = None
        self._in_window = self._before = 0

    def note(self, now_s: float) -> None:
        """Counts one."""
        self._turn(now_s)
        self.total += 1
        self._in_window += 1

    def rate(self, now_s: float) -> float:
        """The number in a second."""
        began_s = self._turn(now_s)
        return (self._before + self._in_window) / (now_s - began_s + WINDOW_S)

    def _turn(self, now_s: float) -> float:
        """Begins the window of this moment; returns its begin."""
        began_s = self._began_s
        windows = 0 if began_s is None else int((now_s - began_s) // WINDOW_S)
        if began_s is None:
            began_s = self._began_s = now_s
        elif windows > 0:
            self._before = self._in_window if windows == 1 else 0
            self._in_window = 0
            began_s = self._began_s = began_s + windows * WINDOW_S
        return began_s


class ConnectionMetrics:
    """A collector of the connections of each listener for Kafka's clients."""

    def __init__(self, clock: Clock, listeners: Sequence[KafkaListener]) -> None:
        self._clock = clock
        self._listeners = listeners

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics, at each scrape of the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        count = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections of a listener for Kafka's clients, gRPC that it passes on included.",
            labels=["listener", "networkProcessor"],
        )
        rate = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_creation_rate",
            "Connections a second that such a listener accepted in the last 30 to 60 seconds.",
            labels=["listener", "networkProcessor"],
        )
        total = CounterMetricFamily(
            "kafka_server_socket_server_metrics_connection_creation",
            "Connections that such a listener accepted.",
            labels=["listener", "networkProcessor"],
        )
        now_s = self._clock.monotonic()
        for each in self._listeners:
            labels = [each.name, "0"]
            count.add_metric(labels, each.open)
            rate.add_metric(labels, each.opened.rate(now_s))
            total.add_metric(labels, each.opened.total)
        yield count
        yield rate
        yield total
