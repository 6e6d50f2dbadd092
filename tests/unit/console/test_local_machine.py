"""The processes of `strandline up` as the fault lab hits them: what each can have, and its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline_cli.errors import ClusterError
from strandline_console.faults import machines
from strandline_console.faults.machines import LocalMachine

if TYPE_CHECKING:
    from pathlib import Path


class Cluster:
    """A cluster of a controller and a broker, of which nothing runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process_ids = ["controller", 1]
        self.pid: int | None = 71

    def name_of(self, process_id: object) -> str:
        return "controller" if process_id == "controller" else f"broker-{process_id}"

    def process(self, target: str) -> Any:
        return SimpleNamespace(pid=self.pid)

    def data_directory(self, target: str) -> Path:
        return self.directory / target

    def listeners(self, target: str) -> list[Any]:
        return [SimpleNamespace(address=f"127.0.0.1:{port}") for port in (9092, 19092)]

    def metrics_address(self, target: str) -> str | None:
        return "127.0.0.1:9401"


class Did:
    """Takes the place of each means, and notes what was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.disks: dict[str, Any] = {}
        monkeypatch.setattr(machines, "disk_of", lambda _, name: self.disks.get(name))
        monkeypatch.setattr(machines, "_cannot_cut_off", lambda: None)
        monkeypatch.setattr(machines, "cannot_throttle", lambda directory: None)
        monkeypatch.setattr(machines, "cannot_cut", lambda: None)
        monkeypatch.setattr(machines, "CutOff", self._means("cut off"))
        monkeypatch.setattr(machines, "SlowProcess", self._means("slow"))

    def _means(self, what: str) -> Any:
        def made(group: str, pid: int, where: object) -> Any:
            return SimpleNamespace(
                begin=lambda: self.done.append(f"{what} {pid} {where}"),
                end=lambda: self.done.append(f"end of {what}"),
            )

        return made

    def disk(self, name: str) -> None:
        self.disks[name] = SimpleNamespace(
            fill=lambda: self.done.append("fill"),
            make_room=lambda: self.done.append("make room"),
            stall=lambda ms: self.done.append(f"stall {ms}"),
            release=lambda: self.done.append("release"),
        )


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> Did:
    return Did(monkeypatch)


def machine(tmp_path: Path) -> LocalMachine:
    return LocalMachine(cast("Any", Cluster(tmp_path)))


def test_a_process_on_the_machines_disk_can_be_slow_and_cut_off_but_not_full(
    did: Did, tmp_path: Path
) -> None:
    found = machine(tmp_path)
    assert found.targets == ["controller", "broker-1"]
    assert list(found.cannot_do("broker-1")) == ["full_disk"]
    assert "strandline up --own-disks 256" in found.cannot_do("broker-1")["full_disk"]
    found.strike("slow_disk", "broker-1")
    found.strike("cut_off", "broker-1")
    found.heal("slow_disk", "broker-1")
    found.heal("cut_off", "broker-1")
    found.heal("cut_off", "broker-1")  # it was healed
    assert did.done == [
        f"slow 71 {tmp_path / 'broker-1'}",
        "cut off 71 [9092, 19092, 9401]",
        "end of slow",
        "end of cut off",
    ]


def test_a_process_with_a_disk_of_its_own_can_have_it_full_and_slow(
    did: Did, tmp_path: Path
) -> None:
    did.disk("broker-1")
    found = machine(tmp_path)
    assert did.done == ["make room"], "what a console left that was killed"
    did.done.clear()
    assert found.cannot_do("broker-1") == {}
    assert list(found.cannot_do("controller")) == ["full_disk"]
    for kind in ("full_disk", "slow_disk"):
        found.strike(kind, "broker-1")
        found.heal(kind, "broker-1")
    assert did.done == ["fill", "make room", "stall 50", "release"]


def test_what_the_machine_cannot_do_is_named_with_its_reason(
    did: Did, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_cannot_cut_off", lambda: "no iptables here")
    monkeypatch.setattr(machines, "cannot_throttle", lambda directory: "no control groups")
    monkeypatch.setattr(machines, "cannot_cut", lambda: "only root can mount a disk")
    assert machine(tmp_path).cannot_do("broker-1") == {
        "cut_off": "no iptables here",
        "full_disk": "only root can mount a disk",
        "slow_disk": "no control groups",
    }


def test_a_process_that_has_ended_is_not_struck(did: Did, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.pid = None
    with pytest.raises(ClusterError, match="broker-1 is not running"):
        LocalMachine(cast("Any", cluster)).strike("cut_off", "broker-1")
    assert did.done == []
