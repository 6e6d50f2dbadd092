"""The interface between a chaos run and the cluster that it breaks."""

from collections.abc import Sequence
from typing import Protocol

from strandline_chaos.faults.plan import Fault


class Target(Protocol):
    """A cluster of processes or of containers. Servers have names: `broker-1`, `controller`."""

    @property
    def title(self) -> str:
        """The kind of cluster, for people."""
        ...

    @property
    def flag(self) -> str:
        """The option that chooses it."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Every server."""
        ...

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers for this process."""
        ...

    @property
    def inner_bootstrap(self) -> str:
        """Addresses of the brokers for the workload."""
        ...

    def begin(self) -> None:
        """Start the cluster, or check that it is there; returns once it answers."""
        ...

    def workload(self, options: Sequence[str]) -> list[str]:
        """The command that runs the workload with these options."""
        ...

    def end_workload(self, pid: int) -> None:
        """Send SIGTERM to the workload, which `workload`'s command has started as `pid`."""
        ...

    def strike(self, fault: Fault, victims: Sequence[str]) -> None:
        """Begin a fault."""
        ...

    def heal(self, fault: Fault, victims: Sequence[str]) -> None:
        """End a fault. A server that is dead by now is started."""
        ...

    def dead(self, names: Sequence[str]) -> Sequence[str]:
        """Return which of these servers have ended. A paused server has not."""
        ...

    def how_it_ended(self, name: str) -> str:
        """The end of a server in words, with the last lines of its log."""
        ...

    def start(self, name: str) -> None:
        """Start a server that has ended; waits for nothing."""
        ...

    def close(self) -> None:
        """End what the run has made: processes, mounts and namespaces, however far it came."""
        ...
