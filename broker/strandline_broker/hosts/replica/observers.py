"""What is told of a replica's events: fetch sessions, coordinators, and the upkeep of its log.

All of them are told within the step in which the event happens: between the event and the call
there is no `await`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition


class FetchListener(Protocol):
    """A fetch session that waits for news of a partition."""

    def on_news(self, partition: Partition) -> None:
        """There may be something to read, or the role has changed."""
        ...

    def on_watermark(self, partition: Partition) -> None:
        """The high watermark has risen; that alone gives a follower nothing to read."""
        ...

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """A request of that replica has named less of it than its leader had heard of before."""
        ...


class RoleObserver(Protocol):
    """Keeps state of its own for the partitions that this broker leads, as a coordinator does.

    Observers are given to the replicas when these are made, and are called in that order. For one
    replica the calls are: elected, then committed any number of times, then resigned; and so on;
    and deleted last, when its files are gone.
    """

    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        """It leads in `epoch`, which begins at offset `start`: what lies below is of earlier
        leaders.
        """
        ...

    def committed(self, partition: Partition, end: int) -> None:
        """While it leads, all below `end` has become committed; producers that waited for that were
        answered before.
        """
        ...

    def resigned(self, partition: Partition) -> None:
        """It leads no more; producers that waited for a commit know that its fate is unknown."""
        ...

    def deleted(self, partition: Partition) -> None:
        """The controller has removed the replica."""
        ...


class LogObserver(Protocol):
    """Works on a replica's log in the background: flushes, retention, cleaning."""

    def on_configured(self, partition: Partition) -> None:
        """Its configuration may be another one."""
        ...

    def on_flushed(self, partition: Partition) -> None:
        """A flush of its log has ended."""
        ...

    async def leave_alone(self, partition: Partition) -> None:
        """Returns once nothing works on its log, which is about to be cut under the gate."""
        ...
