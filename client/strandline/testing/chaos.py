"""Faults of a test, which are healed at its end."""

from typing import TYPE_CHECKING, Final

from strandline.testing.aio import on_thread
from strandline.testing.cluster import Cluster, RunningCluster
from strandline_local.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_local.local_cluster import ProcessId

NO_PROCESSES: Final = (
    "strandline_chaos needs a cluster of this test run's own: leave out --strandline-bootstrap and"
    " --strandline-shared"
)


class Chaos:
    """Breaks the processes of a cluster. Each method returns the process that it has hit.

    The victim is a broker's id, "controller", or the leader of a partition (`leader_of=topic`).
    """

    def __init__(self, cluster: Cluster, note: "Callable[[str], None] | None" = None) -> None:
        if not isinstance(cluster, RunningCluster):
            raise ClusterError(NO_PROCESSES)
        self._cluster = cluster
        self._note = note
        self.has_struck = False
        """True if a fault may not be healed yet."""

    @property
    def aio(self) -> "AsyncChaos":
        """The same faults as coroutines."""
        return AsyncChaos(self)

    def kill(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Kills the process with SIGKILL."""
        return self._strike("kill", self._cluster.kill, process, leader_of, partition)

    def stop(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Stops the process in order."""
        return self._strike("stop", self._cluster.stop, process, leader_of, partition)

    def pause(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Stops the process with SIGSTOP, until `resume` or the end of the test."""
        return self._strike("pause", self._cluster.pause, process, leader_of, partition)

    def cut_off(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Cuts the process off from the network, until `rejoin` or the end of the test."""
        return self._strike("cut_off", self._cluster.cut_off, process, leader_of, partition)

    def restart(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Starts the process again. One that still runs is stopped in order before."""

        def again(victim: "ProcessId") -> None:
            if self._cluster.processes.process(victim).pid is not None:
                self._cluster.stop(victim)
            self._cluster.start(victim)

        return self._strike("restart", again, process, leader_of, partition)

    def resume(self, process: "ProcessId") -> None:
        """Continues a paused process."""
        self._strike("resume", self._cluster.resume, process, None, 0)

    def rejoin(self, process: "ProcessId") -> None:
        """Takes back `cut_off`."""
        self._strike("rejoin", self._cluster.rejoin, process, None, 0)

    def heal(self) -> None:
        """Takes back every fault, and waits until all replicas are in sync. The fixture calls it
        at the end of the test.
        """
        if self.has_struck:
            self._cluster.heal()
            self.has_struck = False

    def _strike(
        self,
        what: str,
        strike: "Callable[[ProcessId], None]",
        process: "ProcessId | None",
        leader_of: str | None,
        partition: int,
    ) -> "ProcessId":
        if (process is None) == (leader_of is None):
            raise ClusterError(f"{what}() takes a process, as in {what}(2), or leader_of=topic")
        victim = process
        if victim is None:
            assert leader_of is not None
            victim = self._cluster.leader_of(leader_of, partition)
        self.has_struck = True
        if self._note is not None:
            about = "" if leader_of is None else f", the leader of {leader_of}:{partition}"
            self._note(f"the test: {what}({victim!r}){about}")
        strike(victim)
        return victim


class AsyncChaos:
    """The faults as coroutines; the event loop of the test continues meanwhile."""

    def __init__(self, blocking: Chaos) -> None:
        self._blocking = blocking

    async def kill(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Kills the process with SIGKILL."""
        return await on_thread(
            self._blocking.kill, process, leader_of=leader_of, partition=partition
        )

    async def stop(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Stops the process in order."""
        return await on_thread(
            self._blocking.stop, process, leader_of=leader_of, partition=partition
        )

    async def pause(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Stops the process with SIGSTOP, until `resume` or the end of the test."""
        return await on_thread(
            self._blocking.pause, process, leader_of=leader_of, partition=partition
        )

    async def cut_off(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Cuts the process off from the network, until `rejoin` or the end of the test."""
        return await on_thread(
            self._blocking.cut_off, process, leader_of=leader_of, partition=partition
        )

    async def restart(
        self,
        process: "ProcessId | None" = None,
        *,
        leader_of: str | None = None,
        partition: int = 0,
    ) -> "ProcessId":
        """Starts the process again. One that still runs is stopped in order before."""
        return await on_thread(
            self._blocking.restart, process, leader_of=leader_of, partition=partition
        )

    async def resume(self, process: "ProcessId") -> None:
        """Continues a paused process."""
        await on_thread(self._blocking.resume, process)

    async def rejoin(self, process: "ProcessId") -> None:
        """Takes back `cut_off`."""
        await on_thread(self._blocking.rejoin, process)

    async def heal(self) -> None:
        """Takes back every fault, and waits until all replicas are in sync."""
        await on_thread(self._blocking.heal)
