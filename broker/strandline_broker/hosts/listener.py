"""Whoever waits for news of a partition: a fetch session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_broker.hosts.partition import Partition


class Listener:
    def on_news(self, partition: Partition) -> None:
        """There may be something to read, or the role has changed."""

    def on_watermark(self, partition: Partition) -> None:
        """The high watermark has risen; that alone gives a follower nothing to read."""

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """A request of that replica has named less of it than its leader had heard of before."""
