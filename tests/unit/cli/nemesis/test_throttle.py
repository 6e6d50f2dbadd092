"""A slow disk for one process: what the kernel is asked for; files stand for it."""

import os
from pathlib import Path

import pytest

from strandline_cli.errors import ClusterError
from strandline_cli.nemesis import throttle
from strandline_cli.nemesis.throttle import (
    Controller,
    SlowContainer,
    SlowProcess,
    cannot_throttle,
    device_of,
    find_controller,
)

LIMITS = {False: "blkio.throttle.write_iops_device", True: "io.max"}


class Kernel:
    """The files of a machine with one version of control groups."""

    def __init__(self, root: Path, *, is_unified: bool) -> None:
        self.groups, self.proc, self.sys = root / "groups", root / "proc", root / "sys"
        self.is_unified = is_unified
        self.group("docker/c1")
        if is_unified:
            (self.groups / "cgroup.controllers").write_text("cpu io memory\n")
            mount = f"cgroup2 {self.groups} cgroup2 rw 0 0\n"
        else:
            mount = f"cgroup {self.groups} cgroup rw,blkio 0 0\n"
            (self.groups / LIMITS[False]).touch()
        self.proc.mkdir()
        (self.proc / "mounts").write_text(f"/dev/vda / ext4 rw 0 0\n{mount}")
        disk = self.sys / "devices" / "vda"
        (disk / "vda1").mkdir(parents=True)
        (disk / "dev").write_text("254:0\n")
        (disk / "vda1" / "partition").write_text("1\n")
        (self.sys / "dev" / "block").mkdir(parents=True)

    def group(self, path: str) -> Path:
        made = self.groups / path
        made.mkdir(parents=True)
        (made / "cgroup.procs").touch()
        return made

    def place(self, pid: int, path: str) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        line = f"0::{path}" if self.is_unified else f"9:name=systemd:/\n7:blkio:{path}"
        (self.proc / str(pid) / "cgroup").write_text(f"8:pids:/\n{line}\n")

    def disk_is(self, name: str, directory: Path) -> None:
        number = directory.stat().st_dev
        link = self.sys / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
        link.symlink_to(self.sys / "devices" / name)

    def limit(self, group: str) -> str:
        return (self.groups / group / LIMITS[self.is_unified]).read_text()


@pytest.fixture(params=[False, True], ids=["blkio", "io"])
def kernel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Kernel:
    made = Kernel(tmp_path, is_unified=request.param)
    monkeypatch.setattr(throttle, "PROC", made.proc)
    monkeypatch.setattr(throttle, "SYS", made.sys)
    monkeypatch.setattr(throttle, "has_sys_admin", lambda: True)
    monkeypatch.setattr(os, "major", lambda number: 254)
    monkeypatch.setattr(os, "minor", lambda number: 7)
    return made


def limit_text(kernel: Kernel, writes: int | None) -> str:
    if kernel.is_unified:
        return f"254:0 wiops={'max' if writes is None else writes}"
    return f"254:0 {writes or 0}"


def test_a_process_is_slow_in_a_group_of_its_own_and_then_returns(
    kernel: Kernel, tmp_path: Path
) -> None:
    before = kernel.group("session")
    kernel.place(71, "/session")
    kernel.disk_is("vda/vda1", tmp_path)
    slow = SlowProcess("strandline-1", 71, tmp_path)
    slow.begin(10)
    assert kernel.limit("strandline-1") == limit_text(kernel, 10), "of the whole disk"
    assert (kernel.groups / "strandline-1" / "cgroup.procs").read_text() == "71"
    slow.end()
    assert kernel.limit("strandline-1") == limit_text(kernel, None)
    assert (before / "cgroup.procs").read_text() == "71"
    slow.end()  # a further end does nothing


def test_a_container_is_slow_in_the_group_that_it_has(kernel: Kernel, tmp_path: Path) -> None:
    kernel.place(71, "/docker/c1")
    kernel.disk_is("vda", tmp_path)
    (kernel.sys / "devices" / "vda" / "partition").unlink(missing_ok=True)
    slow = SlowContainer(71, tmp_path)
    slow.begin(10)
    number = limit_text(kernel, 10).replace("254:0", "254:7")
    assert kernel.limit("docker/c1") == number, "a disk without partitions is limited itself"
    slow.end()
    assert kernel.limit("docker/c1") == limit_text(kernel, None).replace("254:0", "254:7")


def test_a_process_without_a_group_of_its_own_is_no_container(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.place(71, "/")
    kernel.disk_is("vda", tmp_path)
    with pytest.raises(ClusterError, match="no control group of its own"):
        SlowContainer(71, tmp_path).begin()


def test_each_reason_why_none_can_be_slow_is_named(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cannot_throttle(tmp_path) == (
        f"{tmp_path} is on no block device, whose writes could be delayed"
    )
    kernel.disk_is("vda", tmp_path)
    assert cannot_throttle(tmp_path) is None
    (kernel.proc / "mounts").write_text("/dev/vda / ext4 rw 0 0\n")
    assert find_controller() is None
    assert "no control groups" in str(cannot_throttle(tmp_path))
    monkeypatch.setattr(throttle, "has_sys_admin", lambda: False)
    assert cannot_throttle(tmp_path) == "only root can delay a process's writes"
    with pytest.raises(ClusterError, match="is not known"):
        device_of(tmp_path / "nowhere")


def test_a_kernel_that_refuses_is_named_with_the_file(kernel: Kernel) -> None:
    controller = Controller(kernel.groups, is_unified=kernel.is_unified)
    with pytest.raises(ClusterError, match="does not take '254:0"):
        controller.write_limit(kernel.groups / "no such group", "254:0", 10)
    with pytest.raises(ClusterError, match="process 4711 is not known"):
        controller.group_of(4711)
