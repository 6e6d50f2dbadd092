"""The asynchronous form of a test's cluster: each blocking call runs on a thread.

So the event loop of the test, and its clients, continue meanwhile.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from strandline.testing.cluster import WAIT_S, Cluster, RunningCluster
from strandline_local.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline import TopicPartition
    from strandline.testing.clients import ConsumerFactory, ProducerFactory
    from strandline.testing.ledger import Ledger
    from strandline.types import ConsumerRecord
    from strandline_local.local_cluster import ProcessId

P = ParamSpec("P")
T = TypeVar("T")


async def on_thread(function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """The result of the blocking call. A cancelled caller waits for its end: a process that is
    half started would have no owner.
    """
    call = asyncio.get_running_loop().run_in_executor(None, lambda: function(*args, **options))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


class AsyncCluster:
    """A running cluster, with coroutines in place of blocking calls."""

    def __init__(self, cluster: Cluster) -> None:
        self.blocking = cluster
        """The same cluster in blocking form."""

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, `host:port,host:port`."""
        return self.blocking.bootstrap

    @property
    def producer(self) -> "ProducerFactory":
        """Makes producers whose acknowledged records `assert_nothing_lost` checks."""
        return self.blocking.producer

    @property
    def consumer(self) -> "ConsumerFactory":
        """Makes consumers."""
        return self.blocking.consumer

    @property
    def ledger(self) -> "Ledger":
        """The acknowledged records."""
        return self.blocking.ledger

    @property
    def _running(self) -> RunningCluster:
        if not isinstance(self.blocking, RunningCluster):
            raise ClusterError(
                "the processes of an external cluster cannot be broken by a test: leave out"
                " --strandline-bootstrap"
            )
        return self.blocking

    @property
    def brokers(self) -> list[int]:
        """Ids of the brokers."""
        return self._running.brokers

    @property
    def directory(self) -> Path:
        """The directory with the configuration, the data and the logs."""
        return self._running.directory

    def log_file(self, process: "ProcessId") -> Path:
        """The log file of a process."""
        return self._running.log_file(process)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        config: "Mapping[str, object] | None" = None,
    ) -> str:
        """Creates a topic, waits until every broker knows it, and returns its name."""
        return await on_thread(
            self.blocking.create_topic,
            name,
            partitions,
            replication_factor=replication_factor,
            config=config,
        )

    async def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = WAIT_S) -> int:
        """Returns the broker that leads the partition, and waits for an election if none does."""
        return await on_thread(self.blocking.leader_of, topic, partition, timeout_s=timeout_s)

    async def wait_in_sync(self, topic: str, *, timeout_s: float = WAIT_S) -> None:
        """Waits until every broker reports all replicas of the topic in the ISR."""
        await on_thread(self.blocking.wait_in_sync, topic, timeout_s=timeout_s)

    async def records(self, topic: str, *, timeout_s: float = WAIT_S) -> "list[ConsumerRecord]":
        """Returns every committed record of the topic, by partition and offset."""
        return await on_thread(self.blocking.records, topic, timeout_s=timeout_s)

    async def committed(self, group: str) -> "dict[TopicPartition, int]":
        """Returns the committed offsets of the group."""
        return await on_thread(self.blocking.committed, group)

    async def assert_nothing_lost(self) -> int:
        """Checks that the log has every acknowledged record. Raises RecordsLost."""
        return await on_thread(self.blocking.assert_nothing_lost)

    async def kill(self, process: "ProcessId") -> None:
        """Kills the process with SIGKILL, and waits for its end."""
        await on_thread(self._running.kill, process)

    async def stop(self, process: "ProcessId") -> None:
        """Stops the process in order, with a controlled shutdown."""
        await on_thread(self._running.stop, process)

    async def start(self, process: "ProcessId") -> None:
        """Starts the process, and waits until the cluster counts it."""
        await on_thread(self._running.start, process)

    async def pause(self, process: "ProcessId") -> None:
        """Stops the process with SIGSTOP: it stays, and does nothing."""
        await on_thread(self._running.pause, process)

    async def resume(self, process: "ProcessId") -> None:
        """Continues a paused process."""
        await on_thread(self._running.resume, process)

    async def cut_off(self, process: "ProcessId") -> None:
        """Cuts the process off from the network. Raises ClusterError where that cannot be."""
        await on_thread(self._running.cut_off, process)

    async def rejoin(self, process: "ProcessId") -> None:
        """Takes back `cut_off`."""
        await on_thread(self._running.rejoin, process)

    def cannot_cut_off(self) -> str | None:
        """Returns the reason why this machine cannot cut a process off; None if it can."""
        return self._running.cannot_cut_off()

    async def heal(self) -> None:
        """Takes back every fault, and waits until all replicas are in sync."""
        await on_thread(self._running.heal)
