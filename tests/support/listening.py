"""A fetch session as its partition sees it, without the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.replica.observers import FetchListener

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition


class Listening(FetchListener):
    """A listener that waits for records from `offset` on, or waits for none."""

    def __init__(self, offset: int | None = 0, *, is_waiting: bool = True) -> None:
        self.offset = offset
        self.is_waiting = is_waiting

    def position(self, partition: Partition) -> int | None:
        return self.offset

    def on_news(self, partition: Partition) -> None:
        """Does nothing."""

    def on_watermark(self, partition: Partition) -> None:
        """Does nothing."""

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """Does nothing."""
