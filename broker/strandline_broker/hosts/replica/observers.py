"""The observers of a replica's events: fetch sessions, coordinators, and the upkeep of its log.

Observers are called within the step of the event: there is no `await` between the event and the
call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.replica.partition import Partition


class FetchListener(Protocol):
    """A fetch session that waits for news of a partition."""

    is_waiting: bool
    """True while a request of the session waits for records."""

    def position(self, partition: Partition) -> int | None:
        """The offset from which the session reads the partition; None: it does not read it."""
        ...

    def on_news(self, partition: Partition) -> None:
        """Called when there may be records to read, or the role has changed."""
        ...

    def on_watermark(self, partition: Partition) -> None:
        """Called when the high watermark has risen; that alone gives a follower nothing to read."""
        ...

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """Called when a request of that replica has named an earlier position than its
        leader knew.
        """
        ...


class RoleObserver(Protocol):
    """Keeps state of its own for the partitions that this broker leads, as a coordinator does.

    Replicas get their observers when they are made, and call them in that order. The calls for one
    replica are: elected, then committed any number of times, then resigned; this may repeat. The
    last call is deleted, when the replica's files are gone.
    """

    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        """Called when the replica leads in `epoch`, which begins at offset `start`: lower offsets
        are of earlier leaders.
        """
        ...

    def committed(self, partition: Partition, end: int) -> None:
        """Called while the replica leads, when all below `end` has become committed; producers that
        waited for it were answered before.
        """
        ...

    def resigned(self, partition: Partition) -> None:
        """Called when the replica leads no more; producers that waited for a commit know that the
        outcome is unknown.
        """
        ...

    def deleted(self, partition: Partition) -> None:
        """Called when the controller has removed the replica."""
        ...


class LogObserver(Protocol):
    """Works on a replica's log in the background: flushes, retention, cleaning."""

    def on_configured(self, partition: Partition) -> None:
        """Called when the replica's configuration may have changed."""
        ...

    def on_flushed(self, partition: Partition) -> None:
        """Called when a flush of the log has ended."""
        ...

    async def leave_alone(self, partition: Partition) -> None:
        """Returns once nothing works on the log, which is about to be truncated under the gate."""
        ...


class LogStartObserver(Protocol):
    """Makes log starts durable, and removes the segments below them."""

    def log_start_raised(self, partition: Partition, on_durable: Callable[[], None]) -> None:
        """A replica's log begins later; `on_durable` is called once that start is durable."""
        ...

    async def until_durable(self, partition: Partition) -> None:
        """Returns once the present log start is durable; raises KafkaStorageError otherwise."""
        ...
