"""The processes that faults hit: those of `strandline up` on this machine, and compose's.

Faults that cannot really be done are refused with the reason. The functions block: the lab calls
them on a thread.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Protocol, get_args

from strandline_chaos.faults import plan
from strandline_cli.errors import CliError
from strandline_cli.nemesis.compose import Containers, Project, find
from strandline_cli.nemesis.cut_off import CutOff, cannot_cut_off
from strandline_cli.nemesis.disks import Disk, cannot_cut
from strandline_cli.nemesis.own_disks import disk_of
from strandline_cli.nemesis.throttle import SlowProcess, cannot_throttle
from strandline_console.messages import FaultKind
from strandline_local.local_cluster import LocalCluster
from strandline_local.tools import run_tool

KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
STALL_MS: Final = 50
"""Time that a write to a slow disk of a server's own waits, again and again."""
_OWN_DISKS: Final = "--own-disks 256"
_MACHINE_DISK: Final = (
    "the data directory is on the machine's own disk, which is never filled; start a new cluster"
    f" with `strandline up {_OWN_DISKS}`"
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

    def cannot_do(self, target: str) -> Mapping[FaultKind, str]:
        """The faults that the target cannot have here, each with the reason."""
        ...

    def strike(self, kind: FaultKind, target: str) -> None:
        """Begin a fault. Raises ClusterError; `heal` then takes back what was done."""
        ...

    def heal(self, kind: FaultKind, target: str) -> None:
        """End a fault. Raises ClusterError."""
        ...


class _Held(Protocol):
    """A fault that lasts until its end."""

    def begin(self) -> None: ...
    def end(self) -> None: ...


class LocalMachine:
    """The processes of the cluster that `strandline up` made in a directory."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._held: dict[tuple[FaultKind, str], _Held] = {}
        for target in self.targets:  # what a console left that was killed
            disk = self._disk(target)
            if disk is not None:
                disk.make_room()

    @property
    def targets(self) -> list[str]:
        return [self._cluster.name_of(each) for each in self._cluster.process_ids]

    def find_controller(self) -> str | None:
        return None

    def is_alive(self, target: str) -> bool:
        return self._cluster.process(target).pid is not None

    def how_it_ended(self, target: str) -> str:
        return self._cluster.exit_report(target)

    def cannot_do(self, target: str) -> Mapping[FaultKind, str]:
        found: dict[FaultKind, str] = {}
        if why := _cannot_cut_off():
            found["cut_off"] = why
        if self._disk(target) is not None:
            return found
        why = cannot_cut()
        found["full_disk"] = _MACHINE_DISK if why is None else why
        if why := cannot_throttle(self._cluster.data_directory(target)):
            found["slow_disk"] = why
        return found

    def _disk(self, target: str) -> Disk | None:
        return disk_of(self._cluster.directory, target)

    def strike(self, kind: FaultKind, target: str) -> None:
        match kind:
            case "kill":
                self._cluster.kill(target)
            case "stop":
                self._cluster.stop(target)
            case "pause":
                self._cluster.pause(target)
            case _:
                held = self._made(kind, target)
                self._held[(kind, target)] = held
                held.begin()

    def _made(self, kind: FaultKind, target: str) -> _Held:
        pid, disk = self._cluster.process(target).pid, self._disk(target)
        if pid is None:
            raise CliError(f"{target} is not running")
        if kind == "cut_off":
            return CutOff(self._group(target), pid, self._ports(target))
        if disk is None:
            return SlowProcess(self._group(target), pid, self._cluster.data_directory(target))
        return _FullDisk(disk) if kind == "full_disk" else _SlowDisk(disk)

    def _ports(self, target: str) -> list[int]:
        addresses = [each.address for each in self._cluster.listeners(target)]
        metrics = self._cluster.metrics_address(target)
        if metrics is not None:
            addresses.append(metrics)
        return [int(address.rpartition(":")[2]) for address in addresses]

    def _group(self, target: str) -> str:
        """The name of a control group that no other cluster of this machine has."""
        of = hashlib.blake2s(bytes(self._cluster.directory), digest_size=4).hexdigest()
        return f"strandline-{of}-{target}"

    def heal(self, kind: FaultKind, target: str) -> None:
        if kind == "pause":
            if self.is_alive(target):
                self._cluster.resume(target)
        elif kind in ("kill", "stop"):
            if not self.is_alive(target):  # a user may have started it
                self._cluster.start(target, wait_s=0)
        elif (held := self._held.pop((kind, target), None)) is not None:
            held.end()


class _FullDisk:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def begin(self) -> None:
        self._disk.fill()

    def end(self) -> None:
        self._disk.make_room()


class _SlowDisk:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def begin(self) -> None:
        self._disk.stall(STALL_MS)

    def end(self) -> None:
        self._disk.release()


@cache
def _cannot_cut_off() -> str | None:
    return cannot_cut_off()


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
        self._reasons: dict[str, str] | None = None

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

    def cannot_do(self, target: str) -> Mapping[FaultKind, str]:
        if self._reasons is None:  # all brokers are alike
            self._reasons = self._project.cannot_do()
        reasons = self._reasons
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
    """The cluster in a directory. Raises ClusterError."""
    return LocalMachine(LocalCluster.open(directory))


def compose_machine() -> ComposeMachine:
    """The cluster of the docker-compose.yml in the working directory. Raises ClusterError."""
    return ComposeMachine(find(_OPTION, whole=False))


def compose_bootstrap() -> str:
    """The addresses of compose's brokers for this machine. Raises ClusterError."""
    containers = Containers(find(_OPTION, whole=False))
    containers.begin()
    return containers.bootstrap
