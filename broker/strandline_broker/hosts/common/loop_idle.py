"""The share of time in which the thread of the event loop had nothing to do."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

WINDOW_S: Final = 60.0
STEP_S: Final = 1.0
"""Least time between two kept samples."""


class LoopIdle:
    """A collector of the idle share of the last minute, from the CPU time of the loop's thread.

    One thread reads and writes the sockets of Kafka's protocol and handles all requests. So it is
    Kafka's only network processor and only request handler, and both metrics have one value.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        """Time and CPU time, oldest first; the first is about a window old."""

    def note(self, now_s: float, cpu_s: float) -> None:
        """Takes the thread's CPU time of this moment."""
        samples = self._samples
        if samples and now_s < samples[-1][0] + STEP_S:
            return
        samples.append((now_s, cpu_s))
        while len(samples) > 2 and samples[1][0] <= now_s - WINDOW_S:
            samples.popleft()

    def share(self) -> float | None:
        """The idle share, between 0 and 1; None before the second sample."""
        if len(self._samples) < 2:
            return None
        (began_s, cpu_began_s), (ended_s, cpu_ended_s) = self._samples[0], self._samples[-1]
        busy = (cpu_ended_s - cpu_began_s) / (ended_s - began_s)
        return min(max(1.0 - busy, 0.0), 1.0)

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics, at each scrape of the registry."""
        from prometheus_client.core import GaugeMetricFamily

        handler = GaugeMetricFamily(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "Share of the last minute, 0 to 1, in which the event loop's thread used no CPU. This"
            " thread handles all requests.",
        )
        network = GaugeMetricFamily(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "The same value: the same thread serves the sockets of Kafka's protocol. gRPC's own"
            " threads do not count.",
        )
        share = self.share()
        if share is not None:
            handler.add_metric([], share)
            network.add_metric([], share)
        yield handler
        yield network
