"""A chaos run's own cluster of processes, in a temporary directory.

Where the machine allows it, each server has a network namespace and a disk of its own. Elsewhere
all servers share loopback, and the faults that need more are left out.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline_chaos.faults import plan
from strandline_chaos.faults.plan import Fault
from strandline_cli.nemesis.disks import PowerDisk, cannot_cut
from strandline_cli.nemesis.network import HUB, Network, cannot_delay, cannot_separate
from strandline_cli.nemesis.server import set_clock
from strandline_local.cluster_files import (
    CONTROLLER,
    GRPC_DISTANCE,
    ClusterFile,
    new_cluster_file,
    write_cluster_files,
)
from strandline_local.local_cluster import LocalCluster, ProcessId

DISK_BYTES: Final = 1 << 30
"""Size of a server's disk; the image takes only what is written."""
_PORT: Final = 9092
_GONE_S: Final = 30.0
_READY_S: Final = 60.0


def cannot_do() -> dict[str, str]:
    """The kinds of faults that cannot be made in a cluster of processes here, with the reason."""
    found: dict[str, str] = {}
    if why := cannot_separate():
        found[plan.PARTITION] = why
    if why := cannot_delay():
        found[plan.DELAY] = why
    if why := cannot_cut():
        found |= dict.fromkeys((plan.DISK_FULL, plan.DISK_SLOW, plan.POWER), why)
    return found


@dataclass(frozen=True, slots=True)
class PlacedFile(ClusterFile):
    """A cluster whose servers have addresses of their own."""

    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def controller_address(self) -> str:
        return f"{self.places[CONTROLLER]}:{self.controller_port}"

    def broker_address(self, broker_id: int) -> str:
        return f"{self.places[f'broker-{broker_id}']}:{self.broker_ports[broker_id]}"

    def grpc_address(self, broker_id: int) -> str:
        return f"{self.places[f'broker-{broker_id}']}:{self.grpc_ports[broker_id]}"


class LabCluster(LocalCluster):
    """Servers whose clocks can be moved, each in its namespace if there is a network."""

    def __init__(self, directory: Path, cluster: ClusterFile, network: Network | None) -> None:
        super().__init__(directory, cluster)
        self._network = network

    def clock(self, name: str) -> Path:
        return self.directory / "run" / f"{name}.clock"

    def launch(self, process_id: ProcessId) -> None:
        name = self._name(process_id)
        clock = self.clock(name)
        if not clock.exists():
            clock.parent.mkdir(parents=True, exist_ok=True)
            set_clock(clock, 0.0)
        kind = CONTROLLER if name == CONTROLLER else "broker"
        inside = [] if self._network is None else self._network.inside(name)
        words = [sys.executable, "-m", "strandline_cli.nemesis.server", str(clock), kind]
        config = ["--config", str(self.directory / f"{name}.toml")]
        self._processes[name].start([*inside, *words, *config], os.environ)

    def _check_port(self, process_id: ProcessId) -> None:
        if self._network is None:  # the ports of a namespace are all free
            super()._check_port(process_id)


class Processes:
    """The target of `--processes`."""

    title = "processes of its own"
    flag = "--processes"

    def __init__(self, directory: Path, brokers: int, *, separate: bool, disks: bool) -> None:
        self._directory = directory
        self._names = [f"broker-{i}" for i in range(1, brokers + 1)] + [CONTROLLER]
        self._network = Network(self._names) if separate else None
        self._has_disks = disks
        self._disks: dict[str, PowerDisk] = {}
        self._cluster: LabCluster | None = None

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def cluster(self) -> LabCluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def inner_bootstrap(self) -> str:
        return self.cluster.bootstrap

    def begin(self) -> None:
        if self._network is not None:
            self._network.make()
        file = self._file(len(self._names) - 1)
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in self._names if self._has_disks else ():
            image = self._directory / f"{name}.img"
            self._disks[name] = PowerDisk(image, self._directory / name, size=DISK_BYTES)
        write_cluster_files(self._directory, file)
        self._cluster = LabCluster(self._directory, file, self._network)
        self._cluster.up(wait_s=_READY_S)

    def _file(self, brokers: int) -> ClusterFile:
        if self._network is None:
            return new_cluster_file(brokers=brokers, port=0)
        settings = new_cluster_file(brokers=brokers, port=_PORT).controller_config
        ids = range(1, brokers + 1)
        return PlacedFile(
            controller_port=_PORT,
            broker_ports=dict.fromkeys(ids, _PORT),
            grpc_ports=dict.fromkeys(ids, _PORT + GRPC_DISTANCE),
            controller_config=settings,
            places=self._network.addresses,
        )

    def workload(self, options: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "strandline_chaos.live.workload", *options]

    def end_workload(self, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)

    # Faults.

    def strike(self, fault: Fault, victims: Sequence[str]) -> None:
        for disk in [self._disks[name] for name in victims if fault.kind == plan.POWER]:
            disk.cut()
        for name in victims:
            self._strike(fault, name)

    def _strike(self, fault: Fault, name: str) -> None:
        process = self.cluster.process(name)
        match fault.kind:
            case plan.KILL | plan.POWER:
                process.send(signal.SIGKILL)  # unless it has ended by itself, with its disk
                process.wait_until_gone(_GONE_S)
                process.forget()
                if fault.kind == plan.POWER:
                    self._disks[name].off()
            case plan.PAUSE:
                process.send(signal.SIGSTOP)
            case plan.PARTITION:
                self._net.cut(links(fault.detail, name, self._names))
            case plan.DELAY:
                self._net.delay(name, number_in(fault.detail))
            case plan.DISK_FULL:
                self._disks[name].fill()
            case plan.DISK_SLOW:
                self._disks[name].stall(number_in(fault.detail))
            case plan.CLOCK:
                set_clock(self.cluster.clock(name), float(number_in(fault.detail)))

    def heal(self, fault: Fault, victims: Sequence[str]) -> None:
        for name in victims:
            self._heal(fault, name)

    def _heal(self, fault: Fault, name: str) -> None:
        match fault.kind:
            case plan.POWER:
                self._disks[name].on()
            case plan.PAUSE:
                self.cluster.process(name).send(signal.SIGCONT)
            case plan.PARTITION:
                self._net.join(links(fault.detail, name, self._names))
            case plan.DELAY:
                self._net.hasten(name)
            case plan.DISK_FULL:
                self._disks[name].make_room()
            case plan.DISK_SLOW:
                self._disks[name].release()
            case plan.CLOCK:
                set_clock(self.cluster.clock(name), 0.0)
        if fault.kind in (plan.KILL, plan.POWER) and not self.is_alive(name):
            self.start(name)

    @property
    def _net(self) -> Network:
        assert self._network is not None
        return self._network

    # Servers.

    def is_alive(self, name: str) -> bool:
        return self.cluster.process(name).pid is not None

    def dead(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if not self.is_alive(name)]

    def how_it_ended(self, name: str) -> str:
        return self.cluster.exit_report(name)

    def start(self, name: str) -> None:
        self.cluster.launch(name)

    def close(self) -> None:
        for disk in self._disks.values():
            disk.release()
        if self._cluster is not None:
            self._cluster.kill_all()
        for disk in self._disks.values():
            with contextlib.suppress(Exception):
                disk.off()
        if self._network is not None:
            self._network.close()


def links(detail: str, name: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """The directed links that a partition of this kind cuts."""
    others = [*(other for other in names if other != name), HUB]
    if detail == plan.MUTE:
        return [(name, other) for other in others]
    if detail == plan.SERVERS_ONLY:
        others.remove(HUB)
    if detail == plan.CONTROLLER_ONLY:
        others = [CONTROLLER]
    return [link for other in others for link in ((name, other), (other, name))]


def number_in(detail: str) -> int:
    """The number of a detail such as `300 ms`, `+600 s` or `stalls of 50 ms`."""
    return int(detail.split()[-2])
