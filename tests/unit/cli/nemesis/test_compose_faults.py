"""Faults in containers: the commands that `docker` and `nsenter` get, which are fakes here."""

import json
import os
from pathlib import Path

import pytest

from strandline_chaos.faults import plan
from strandline_chaos.faults.plan import Fault
from strandline_cli.errors import ClusterError, UsageMistake
from strandline_cli.nemesis import compose
from strandline_cli.nemesis.compose import DATA, Containers, Project, find

SERVICES = {name: f"id-{name}" for name in ("broker-1", "broker-2", "controller")}
ADDRESSES = {"id-broker-1": "10.0.0.3", "id-broker-2": "10.0.0.4", "id-controller": "10.0.0.2"}
NOWHERE = "dev eth0 lladdr 02:00:00:00:00:ff nud permanent"
DOCKER = """#!/bin/sh
for last; do :; done
[ $1 = compose ] || [ -e "$FAKES/$last" ] || echo "no container $last" >> "$FAKES/done"
case "$*" in
    "compose version") ;;
    "compose ps"*) echo id-broker-1 id-broker-2 id-controller ;;
    "compose port broker-2 "*) exit 1 ;;
    "compose port "*) echo "127.0.0.1:$4" ;;
    "inspect id-broker-1 id-broker-2 id-controller") cat "$FAKES/rows" ;;
    *State.Running*)
        shift 3
        for each; do grep -q true "$FAKES/state-$each" && echo true || echo false; done ;;
    *--output=avail*) echo 1000 ;;
    *json*Mounts*) cat "$FAKES/mounts" ;;
    *json*State*) cat "$FAKES/state-$last" ;;
    *NetworkSettings*) cat "$FAKES/$last" ;;
    *State.Pid*) cat "$FAKES/pid-$last" ;;
esac
"""
NSENTER = """#!/bin/sh
container=$2
shift 4
echo "$container: $*" >> "$FAKES/done"
"""


class Fakes:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name, script in (("docker", DOCKER), ("nsenter", NSENTER)):
            (directory / name).write_text(script)
            (directory / name).chmod(0o755)
        for number, container in enumerate(ADDRESSES, start=71):
            self.place(container, ADDRESSES[container])
            (directory / f"pid-{container}").write_text(str(number))
        self.run(*SERVICES)

    def place(self, container: str, address: str) -> None:
        network = {"IPAddress": address, "Gateway": "10.0.0.1"}
        (self._directory / container).write_text(json.dumps({"strandline_default": network}))

    def run(self, *names: str) -> None:
        """Let these services run, and no others."""
        rows = []
        for name, container in SERVICES.items():
            state = {"Running": name in names}
            (self._directory / f"state-{container}").write_text(json.dumps(state))
            labels = {"com.docker.compose.service": name, "com.docker.compose.oneoff": "False"}
            rows.append({"Id": container, "State": state, "Config": {"Labels": labels}})
        (self._directory / "rows").write_text(json.dumps(rows))

    def forget(self, container: str) -> None:
        (self._directory / container).unlink()

    def done(self) -> list[str]:
        """The commands since the last question, sorted."""
        file = self._directory / "done"
        lines = file.read_text().splitlines() if file.exists() else []
        file.write_text("")
        return sorted(lines)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKES", str(tmp_path))
    return Fakes(tmp_path)


@pytest.fixture
def containers() -> Containers:
    return Containers(Project(("docker", "compose"), SERVICES), clients_here=True)


def test_all_servers_are_asked_for_at_once(fakes: Fakes, containers: Containers) -> None:
    assert containers.dead([*SERVICES]) == []
    fakes.run("broker-2")
    assert containers.dead(["broker-2", "controller", "broker-1"]) == ["controller", "broker-1"]
    assert containers.dead([]) == []
    assert containers.is_alive("broker-2")


def cut_off(victim: str) -> Fault:
    return Fault(1, plan.PARTITION, victim, 0, 0, plan.CUT_OFF)


def test_a_broker_is_cut_off_from_servers_and_from_clients_on_this_machine(
    fakes: Fakes, containers: Containers
) -> None:
    containers.strike(cut_off("broker-1"), ["broker-1"])
    assert fakes.done() == [
        f"71: ip neigh replace 10.0.0.1 {NOWHERE}",
        f"71: ip neigh replace 10.0.0.2 {NOWHERE}",
        f"71: ip neigh replace 10.0.0.4 {NOWHERE}",
        f"72: ip neigh replace 10.0.0.3 {NOWHERE}",
        f"73: ip neigh replace 10.0.0.3 {NOWHERE}",
    ]
    containers.heal(cut_off("broker-1"), ["broker-1"])
    assert fakes.done() == [
        "71: ip neigh del 10.0.0.1 dev eth0",
        "71: ip neigh del 10.0.0.2 dev eth0",
        "71: ip neigh del 10.0.0.4 dev eth0",
        "72: ip neigh del 10.0.0.3 dev eth0",
        "73: ip neigh del 10.0.0.3 dev eth0",
    ]


def test_a_cut_that_fails_half_way_is_taken_back(fakes: Fakes, containers: Containers) -> None:
    fakes.forget("id-controller")
    with pytest.raises(ClusterError, match="id-controller"):
        containers.strike(cut_off("broker-1"), ["broker-1"])
    assert fakes.done() == [
        f"71: ip neigh replace 10.0.0.4 {NOWHERE}",
        "no container id-controller",
    ]
    containers.heal(cut_off("broker-1"), ["broker-1"])
    assert fakes.done() == ["71: ip neigh del 10.0.0.4 dev eth0"]


def test_a_console_shows_a_cluster_of_which_a_broker_is_down(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker-compose.yml").touch()
    monkeypatch.chdir(tmp_path)
    fakes.run("broker-1", "controller")
    with pytest.raises(UsageMistake, match=r"is not up \(broker-2 is down\): start it with"):
        find()
    containers = Containers(find("--compose", whole=False))
    containers.begin()
    assert containers.bootstrap == "127.0.0.1:9292"
    assert containers.names == ["broker-1", "broker-2", "controller"]
    fakes.run("controller")
    with pytest.raises(UsageMistake, match=r"is not up \(broker-1, broker-2 is down\)"):
        find("--compose", whole=False)


def test_a_containers_disk_is_slow_until_the_fault_heals(
    fakes: Fakes, containers: Containers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Slow:
        def __init__(self, pid: int, directory: Path) -> None:
            self.of = f"{pid} {directory}"

        def begin(self) -> None:
            done.append(f"begin {self.of}")

        def end(self) -> None:
            done.append(f"end {self.of}")

    mounts = [{"Destination": "/else", "Source": "/x"}, {"Destination": DATA, "Source": "/v/1"}]
    (tmp_path / "mounts").write_text(json.dumps(mounts))
    monkeypatch.setattr(compose, "SlowContainer", Slow)
    fault = Fault(1, plan.DISK_SLOW, "broker-1", 0, 0, "stalls of 50 ms")
    containers.strike(fault, ["broker-1"])
    containers.heal(fault, ["broker-1"])
    assert done == ["begin 71 /v/1", "end 71 /v/1"]


def test_each_reason_against_a_slow_disk_of_a_container_is_named(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(("docker", "compose"), SERVICES)
    monkeypatch.setattr(compose, "cannot_throttle", lambda directory: f"{directory} is in memory")
    (tmp_path / "mounts").write_text(json.dumps([{"Destination": DATA, "Source": "/v/1"}]))
    assert project.cannot_do()[plan.DISK_SLOW] == "/v/1 is in memory"
    (tmp_path / "mounts").write_text("[]")
    assert f"has no volume at {DATA}" in project.cannot_do()[plan.DISK_SLOW]
