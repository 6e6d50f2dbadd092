"""The processes that faults hit: those of `strandline up` on this machine, and compose's.

Faults that cannot really be done are refused with the reason. The functions block: the lab calls
them on a thread.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, get_args

from strandline_chaos.faults import plan
from strandline_cli.cluster.local_cluster import LocalCluster
from strandline_cli.nemesis.compose import Containers, Project, find
from strandline_cli.nemesis.tools import run_tool
from strandline_console.messages import FaultKind

KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
_OWN_DISK: Final = (
    "the data directories of `strandline up` are on the machine's own disk; `strandline chaos live`"
    " gives each server one of its own"
)
_LOOPBACK: Final = (
    "the servers of `strandline up` share loopback, where no link can be cut; `strandline chaos"
    " live` gives each server a network of its own, and compose does"
)


class Machine(Protocol):
    """The processes of one cluster. Their names are `controller` and `broker-1`."""

    @property
    def targets(self) -> list[str]: ...
    def find_controller(self) -> str | None:
        """The controller's address from here; None: the one that it gives of itself."""
        ...

    def is_alive(self, target: str) -> bool: ...
    def how_it_ended(self, target: str) -> str:
        """The end of a process in words, with the last lines of its log."""
        ...

    def cannot_do(self) -> Mapping[FaultKind, str]:
        """The faults that cannot be made here, each with the reason."""
        ...

    def strike(self, kind: FaultKind, target: str) -> None:
        """Begin a fault. Raises CliError; `heal` then takes back what was done."""
        ...

    def heal(self, kind: FaultKind, target: str) -> None:
        """End a fault. Raises CliError."""
        ...


class LocalMachine:
    """The processes of the cluster that `strandline up` made in a directory."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    @property
    def targets(self) -> list[str]:
        ids = self._cluster.process_ids
        return [i if isinstance(i, str) else f"broker-{i}" for i in ids]

    def find_controller(self) -> str | None:
        return None

    def is_alive(self, target: str) -> bool:
        return self._cluster.process(target).pid is not None

    def how_it_ended(self, target: str) -> str:
        return self._cluster.exit_report(target)

    def cannot_do(self) -> Mapping[FaultKind, str]:
        return {"cut_off": _LOOPBACK, "slow_disk": _OWN_DISK, "full_disk": _OWN_DISK}

    def strike(self, kind: FaultKind, target: str) -> None:
        match kind:
            case "kill":
                self._cluster.kill(target)
            case "stop":
                self._cluster.stop(target)
            case "pause":
                self._cluster.pause(target)
            case _:
                raise AssertionError(kind)

    def heal(self, kind: FaultKind, target: str) -> None:
        if kind == "pause":
            if self.is_alive(target):
                self._cluster.resume(target)
        elif not self.is_alive(target):  # a user may have started it
            self._cluster.start(target, wait_s=0)


_CONTROLLER_PORT: Final = 9090
_OPTION: Final = "--compose"
_PLANNED: Final = {
    "kill": plan.KILL,
    "pause": plan.PAUSE,
    "cut_off": plan.PARTITION,
    "slow_disk": plan.DISK_SLOW,
    "full_disk": plan.DISK_FULL,
}


class ComposeMachine:
    """The containers of docker-compose.yml."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._containers = Containers(project, clients_here=True)
        self._struck: dict[tuple[FaultKind, str], plan.Fault] = {}

    @property
    def targets(self) -> list[str]:
        return sorted(self._containers.names, key=lambda name: (name != "controller", name))

    def find_controller(self) -> str | None:
        """A restarted controller may have another address."""
        address = self._project.network(self._project.services["controller"])["IPAddress"]
        return f"{address}:{_CONTROLLER_PORT}" if address else None

    def is_alive(self, target: str) -> bool:
        return self._containers.is_alive(target)

    def how_it_ended(self, target: str) -> str:
        return self._containers.how_it_ended(target)

    def cannot_do(self) -> Mapping[FaultKind, str]:
        reasons = self._project.cannot_do()
        return {
            kind: reasons[_PLANNED[kind]] for kind in KINDS if _PLANNED.get(kind, "") in reasons
        }

    def strike(self, kind: FaultKind, target: str) -> None:
        if kind == "stop":
            run_tool("docker", "stop", self._project.services[target])
            return
        fault = plan.Fault(
            0, _PLANNED[kind], target, 0, 0, plan.CUT_OFF if kind == "cut_off" else ""
        )
        self._struck[(kind, target)] = fault
        self._containers.strike(fault, [target])

    def heal(self, kind: FaultKind, target: str) -> None:
        if kind == "stop":
            self._containers.start(target)
        else:
            self._containers.heal(self._struck.pop((kind, target)), [target])


def local_machine(directory: Path) -> LocalMachine:
    """The cluster in a directory. Raises CliError."""
    return LocalMachine(LocalCluster.open(directory))


def compose_machine() -> ComposeMachine:
    """The cluster of the docker-compose.yml in the working directory. Raises CliError."""
    return ComposeMachine(find(_OPTION, whole=False))


def compose_bootstrap() -> str:
    """The addresses of compose's brokers for this machine. Raises CliError."""
    containers = Containers(find(_OPTION, whole=False))
    containers.begin()
    return containers.bootstrap
