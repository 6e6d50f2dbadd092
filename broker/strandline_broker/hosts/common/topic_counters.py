"""The counters of what a broker's replicas have done, by topic.

Plain numbers that the event loop adds to. A scrape reads them; without one they cost no more than
an addition.
"""

from __future__ import annotations

from typing import Final

NAMES: Final = (
    "bytes_in",
    "messages_in",
    "bytes_out",
    "produce_requests",
    "failed_produce_requests",
    "fetch_requests",
    "failed_fetch_requests",
    "replication_bytes_in",
    "replication_bytes_out",
    "isr_shrinks",
    "isr_expands",
    "failed_isr_updates",
)


class TopicCounters:
    """The counters of one topic."""

    __slots__ = (*NAMES, "replicas")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Bytes of batches that were appended as the leader."""
        self.messages_in = 0
        self.bytes_out = 0
        """Bytes of batches that consumers were sent."""
        self.produce_requests = 0
        """Batches of clients, accepted or not."""
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        """Reads of a partition, by consumers and followers."""
        self.failed_fetch_requests = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.isr_shrinks = 0
        """Changes that have taken a replica out of the ISR, as the leader learned of them."""
        self.isr_expands = 0
        self.failed_isr_updates = 0
        self.replicas = 0
        """Number of this broker's replicas of the topic."""

    def add(self, other: TopicCounters) -> None:
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class BrokerCounters:
    """The counters of all topics. A topic's counters end with its last replica here; the totals
    keep what it has counted, so they never fall.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        self._ended = TopicCounters()

    def begin(self, topic: str) -> TopicCounters:
        """Returns the counters for one more replica of the topic."""
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = TopicCounters()
        counters.replicas += 1
        return counters

    def end(self, topic: str) -> None:
        """Notes the end of one replica of the topic."""
        counters = self.topics[topic]
        counters.replicas -= 1
        if counters.replicas == 0:
            self._ended.add(self.topics.pop(topic))

    def totals(self) -> TopicCounters:
        """Returns the sums over all topics, ended ones included."""
        totals = TopicCounters()
        totals.add(self._ended)
        for counters in self.topics.values():
            totals.add(counters)
        return totals
