"""The containers of `docker-compose.yml`, as the target of a chaos run."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline_chaos.faults import plan
from strandline_chaos.faults.plan import Fault
from strandline_cli.errors import CliError, ClusterError, UsageMistake
from strandline_cli.nemesis.disks import has_sys_admin
from strandline_cli.nemesis.local import number_in
from strandline_cli.nemesis.throttle import SlowContainer, cannot_throttle
from strandline_local.cluster_files import CONTROLLER
from strandline_local.tools import run_tool

FILE: Final = Path("docker-compose.yml")
FLAG: Final = "--containers"
DATA: Final = "/var/lib/strandline/data"
DISK_BYTES_MAX: Final = 2 << 30
"""A volume with more room than this is the machine's own disk, and is never filled."""
_BALLAST: Final = "ballast"
_NETEM: Final = "tc qdisc add dev eth0 root netem"
_NO_NETEM: Final = "tc qdisc del dev eth0 root"
_CLIENTS: Final = "clients"
_NOWHERE: Final = "02:00:00:00:00:ff"


@dataclass(frozen=True, slots=True)
class Project:
    """A compose project that is up."""

    command: tuple[str, ...]
    services: dict[str, str]
    """The id of the container of each server."""

    @property
    def brokers(self) -> int:
        return sum(name.startswith("broker-") for name in self.services)

    def compose(self, *words: object) -> str:
        return run_tool(*self.command, *words)

    def cannot_do(self) -> dict[str, str]:
        """The kinds of faults that cannot be made in these containers, with the reason."""
        found = {
            plan.POWER: "the volumes of containers are on the machine's own disk",
            plan.CLOCK: "containers share the machine's clock",
        }
        if why := self._cannot_reach_networks():
            found |= {plan.PARTITION: why, plan.DELAY: why}
        elif why := self._cannot_delay():
            found[plan.DELAY] = why
        if why := self._cannot_fill():
            found[plan.DISK_FULL] = why
        if why := self._cannot_slow():
            found[plan.DISK_SLOW] = why
        return found

    def _cannot_reach_networks(self) -> str | None:
        if not has_sys_admin():
            return "only root can enter the network namespace of a container"
        if missing := [tool for tool in ("nsenter", "ip") if shutil.which(tool) is None]:
            return f"no {', '.join(missing)} here (Debian: iproute2, util-linux)"
        if not Path(f"/proc/{self.pid(self.services[self._sample()])}/ns/net").exists():
            return "the containers run on another machine or in a virtual one"
        return None

    def _cannot_delay(self) -> str | None:
        try:
            container = self.services[self._sample()]
            self.inside(container, *_NETEM.split(), "delay", "1ms")
            self.inside(container, *_NO_NETEM.split())
        except ClusterError as why:
            return f"tc cannot delay packets here: {why}"
        return None

    def _cannot_slow(self) -> str | None:
        try:
            return cannot_throttle(self.volume(self._sample()))
        except ClusterError as why:
            return f"the place of a volume is not known: {why}"

    def volume(self, name: str) -> Path:
        """The directory of this machine that holds the server's data."""
        words = ("docker", "inspect", "-f", "{{json .Mounts}}", self.services[name])
        mounts: list[dict[str, Any]] = json.loads(run_tool(*words))
        found = [str(each["Source"]) for each in mounts if each.get("Destination") == DATA]
        if not found:
            raise CliError(f"{name} has no volume at {DATA}")
        return Path(found[0])

    def _cannot_fill(self) -> str | None:
        try:
            words = ("df", "-B1", "--output=avail", DATA)
            free = int(self.execute(self._sample(), *words).split()[-1])
        except ClusterError as why:
            return f"the room of a volume is not known: {why}"
        if free > DISK_BYTES_MAX:
            return (
                f"{DATA} of a broker has {free >> 20} MiB free, the machine's own disk: start the"
                " cluster with `-f docker-compose.yml -f chaos/small-disks.yml`"
            )
        return None

    def _sample(self) -> str:
        """A broker that runs, if there is one: brokers are alike."""
        brokers = [name for name in self.services if name != CONTROLLER]
        return next((name for name in brokers if self.state(name)["Running"]), brokers[0])

    def pid(self, container: str) -> int:
        """The pid of a container's process on this machine; 0 if it does not run."""
        return int(run_tool("docker", "inspect", "-f", "{{.State.Pid}}", container))

    def inside(self, container: str, *words: str) -> str:
        """Run a program of this machine in a container's network namespace."""
        return run_tool("nsenter", "-t", self.pid(container), "-n", "--", *words)

    def execute(self, name: str, *words: str) -> str:
        """Run a program of the container."""
        return run_tool("docker", "exec", "-u", "0", self.services[name], *words)

    def network(self, container: str) -> dict[str, str]:
        """A container's place in the project's network; its values are empty if it does not run."""
        words = ("docker", "inspect", "-f", "{{json .NetworkSettings.Networks}}")
        networks: dict[str, dict[str, str]] = json.loads(run_tool(*words, container))
        return next(iter(networks.values()))

    def state(self, name: str) -> dict[str, Any]:
        words = ("docker", "inspect", "-f", "{{json .State}}", self.services[name])
        found: dict[str, Any] = json.loads(run_tool(*words))
        return found


def find(option: str = FLAG, *, whole: bool = True) -> Project:
    """The project of the compose file here, which `option` names. Raises UsageMistake if it is not
    up: all of its servers, or one broker if it need not be `whole`.
    """
    if not FILE.exists():
        raise UsageMistake(
            f"there is no {FILE} here: run this in the repository, or leave out {option}"
        )
    command = _compose_command()
    try:
        ids = run_tool(*command, "ps", "--all", "--quiet").split()
        rows = json.loads(run_tool("docker", "inspect", *ids)) if ids else []
    except ClusterError as why:
        raise UsageMistake(f"the containers cannot be asked: {why}") from None
    services = {}
    for row in rows:
        name = str(row["Config"]["Labels"].get("com.docker.compose.service", ""))
        once = row["Config"]["Labels"].get("com.docker.compose.oneoff") == "True"
        if not once and (name == CONTROLLER or name.startswith("broker-")):
            services[name] = str(row["Id"])
    down = sorted(name for name in services if not _row(rows, services[name])["Running"])
    up = services.keys() - {CONTROLLER, *down}
    if CONTROLLER not in services or not up or (whole and down):
        which = f" ({', '.join(down)} is down)" if down else ""
        raise UsageMistake(
            f"the cluster of {FILE} is not up{which}: start it with"
            " `docker compose up --detach --wait`"
        )
    return Project(command, dict(sorted(services.items())))


def _row(rows: list[dict[str, Any]], container: str) -> dict[str, Any]:
    state: dict[str, Any] = next(row for row in rows if row["Id"] == container)["State"]
    return state


def _compose_command() -> tuple[str, ...]:
    for words in (("docker", "compose"), ("docker-compose",)):
        try:
            run_tool(*words, "version")
        except ClusterError:
            continue
        return words
    raise UsageMistake("there is neither `docker compose` nor `docker-compose` on this machine")


class Containers:
    """The target of `--containers`.

    Clients are in the workload's container, or on this machine (`clients_here`). A broker that is
    cut off sends no packet to this machine, whose own packets still arrive.
    """

    title = "containers of docker-compose.yml"
    flag = FLAG

    def __init__(self, project: Project, *, clients_here: bool = False) -> None:
        self._project = project
        self._clients_here = clients_here
        self._cuts: dict[tuple[str, str], list[str]] = {}
        """The addresses that cut links lead away from."""
        self._struck: list[tuple[Fault, str]] = []
        self._slow: dict[str, SlowContainer] = {}
        self._workload = f"strandline-chaos-{os.getpid()}"

    @property
    def names(self) -> Sequence[str]:
        return list(self._project.services)

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def inner_bootstrap(self) -> str:
        return ",".join(f"{name}:9192" for name in self.names if name != CONTROLLER)

    def begin(self) -> None:
        brokers = [name for name in self.names if name != CONTROLLER]
        living = set(brokers) - set(self.dead(brokers))
        ports = [self._project.compose("port", n, 9292).strip() for n in brokers if n in living]
        self._bootstrap = ",".join(ports)

    def workload(self, options: Sequence[str]) -> list[str]:
        command = [*self._project.command, "--profile", "chaos", "run", "--rm", "-T", "--no-deps"]
        return [*command, "--name", self._workload, "workload", *options]

    def end_workload(self, pid: int) -> None:
        run_tool("docker", "kill", "-s", "TERM", self._workload)

    def strike(self, fault: Fault, victims: Sequence[str]) -> None:
        for name in victims:
            self._struck.append((fault, name))
            container = self._project.services[name]
            match fault.kind:
                case plan.KILL:
                    run_tool("docker", "kill", "-s", "KILL", container)
                case plan.PAUSE:
                    run_tool("docker", "pause", container)
                case plan.PARTITION:
                    self._cut(fault, name)
                case plan.DELAY:
                    delay = f"{number_in(fault.detail)}ms"
                    self._project.inside(container, *_NETEM.split(), "delay", delay)
                case plan.DISK_FULL:
                    script = (
                        f"fallocate -l $(df -B1 --output=avail {DATA} | tail -1) {DATA}/{_BALLAST};"
                        f" dd if=/dev/zero of={DATA}/{_BALLAST} oflag=append conv=notrunc bs=4096;"
                        " true"
                    )
                    self._project.execute(name, "sh", "-c", script)
                case plan.DISK_SLOW:
                    pid, volume = self._project.pid(container), self._project.volume(name)
                    self._slow[name] = SlowContainer(pid, volume)
                    self._slow[name].begin()

    def heal(self, fault: Fault, victims: Sequence[str]) -> None:
        for name in victims:
            self._struck.remove((fault, name))
            container = self._project.services[name]
            match fault.kind:
                case plan.KILL:
                    self.start(name)
                case plan.PAUSE:
                    run_tool("docker", "unpause", container)
                case plan.PARTITION:
                    self._join(fault, name)
                case plan.DELAY:
                    self._project.inside(container, *_NO_NETEM.split())
                case plan.DISK_FULL:
                    self._project.execute(name, "rm", "-f", f"{DATA}/{_BALLAST}")
                case plan.DISK_SLOW:
                    if name in self._slow:
                        self._slow.pop(name).end()

    def _cut(self, fault: Fault, name: str) -> None:
        for link in self._links(fault, name):
            cuts = self._cuts.setdefault(link, [])
            cuts.append(self._address_of(link))
            self._neighbour(link[0], f"replace {cuts[-1]} dev eth0 lladdr {_NOWHERE} nud permanent")

    def _join(self, fault: Fault, name: str) -> None:
        for link in self._links(fault, name):
            if not self._cuts.get(link):
                continue  # the cut failed before it reached this link
            address = self._cuts[link].pop()
            if address not in self._cuts[link]:
                self._neighbour(link[0], f"del {address} dev eth0")

    def _neighbour(self, sender: str, words: str) -> None:
        """Change where a container's packets go. One that does not run forgets its changes."""
        with contextlib.suppress(ClusterError):
            self._project.inside(self._container(sender), "ip", "neigh", *words.split())

    def _links(self, fault: Fault, name: str) -> list[tuple[str, str]]:
        others = [other for other in self.names if other != name]
        if fault.detail == plan.CONTROLLER_ONLY:
            others = [CONTROLLER]
        elif fault.detail != plan.SERVERS_ONLY:
            others.append(_CLIENTS)
        ahead = [(name, other) for other in others]
        behind = [] if fault.detail == plan.MUTE else [(other, name) for other in others]
        return ahead + [link for link in behind if not (self._clients_here and link[0] == _CLIENTS)]

    def _container(self, name: str) -> str:
        return self._workload if name == _CLIENTS else self._project.services[name]

    def _address_of(self, link: tuple[str, str]) -> str:
        """The receiver's address as it is now: a restarted container may have another.

        This machine is the gateway of the sender's network.
        """
        sender, receiver = link
        here = receiver == _CLIENTS and self._clients_here
        return self._project.network(self._container(sender if here else receiver))[
            "Gateway" if here else "IPAddress"
        ]

    def is_alive(self, name: str) -> bool:
        return not self.dead([name])

    def dead(self, names: Sequence[str]) -> Sequence[str]:
        """Ask one program for all: each takes a twentieth of a second of a processor."""
        if not names:
            return []
        containers = [self._project.services[name] for name in names]
        answers = run_tool("docker", "inspect", "-f", "{{.State.Running}}", *containers).split()
        return [name for name, running in zip(names, answers, strict=True) if running != "true"]

    def how_it_ended(self, name: str) -> str:
        log = run_tool("docker", "logs", "--tail", "5", self._project.services[name])
        return f"{name} ended with exit status {self._project.state(name)['ExitCode']}: {log}"

    def start(self, name: str) -> None:
        run_tool("docker", "start", self._project.services[name])

    def close(self) -> None:
        """Heal what is still broken; the cluster stays up, as it was found."""
        subprocess.run(
            ["docker", "rm", "-f", self._workload], capture_output=True, check=False, timeout=60
        )
        for fault, name in list(self._struck):
            try:
                self.heal(fault, [name])
            except ClusterError:
                continue
