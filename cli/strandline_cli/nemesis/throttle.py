"""A slow disk for one process: the kernel delays its writes to a device.

The means is the `io` or `blkio` controller of control groups. It takes root and a directory on a
block device. Memory (tmpfs) and overlays have no device that could be slow. A flush by another
process of the same file system may wait with it, because they share its journal.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError, ClusterError
from strandline_cli.nemesis.disks import has_sys_admin

WRITES_PER_S: Final = 10
"""Writes that a slow disk takes in a second. A flush needs about three."""
PROC: Final = Path("/proc")
SYS: Final = Path("/sys")
_MEMBERS: Final = "cgroup.procs"


@dataclass(frozen=True, slots=True)
class Controller:
    """The hierarchy of control groups that limits writes here."""

    root: Path
    """The directory at which it is mounted."""
    is_unified: bool
    """True for version 2 (`io.max`), False for version 1 (`blkio`)."""

    def write_limit(self, group: Path, device: str, writes_per_s: int | None) -> None:
        """Limits the group's writes to the device; None: no limit. Raises CliError."""
        if self.is_unified:
            limit = "max" if writes_per_s is None else str(writes_per_s)
            _write(group / "io.max", f"{device} wiops={limit}")
        else:
            _write(group / "blkio.throttle.write_iops_device", f"{device} {writes_per_s or 0}")

    def group_of(self, pid: int) -> Path:
        """The group of a process. Raises CliError."""
        try:
            lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
        except OSError as why:
            raise CliError(f"the control group of process {pid} is not known: {why}") from None
        for line in lines:
            number, names, path = line.split(":", 2)
            if (number == "0") if self.is_unified else ("blkio" in names.split(",")):
                return self.root / path.lstrip("/")
        raise CliError(f"process {pid} is in no control group that limits writes")

    def make_group(self, name: str) -> Path:
        """A group of that name for single processes. Raises CliError."""
        group = self.root / name
        if self.is_unified:
            _write(self.root / "cgroup.subtree_control", "+io")
        try:
            group.mkdir(exist_ok=True)
        except OSError as why:
            raise CliError(f"no control group can be made: {why}") from None
        return group


def find_controller() -> Controller | None:
    """The hierarchy that limits writes; None: this machine has none."""
    try:
        mounts = [line.split() for line in (PROC / "mounts").read_text().splitlines()]
    except OSError:
        return None
    for _, where, kind, options, *_ in mounts:
        root = Path(where)
        if kind == "cgroup2" and "io" in _text(root / "cgroup.controllers").split():
            return Controller(root, is_unified=True)
        if (
            kind == "cgroup"
            and "blkio" in options.split(",")
            and (root / "blkio.throttle.write_iops_device").exists()
        ):
            return Controller(root, is_unified=False)
    return None


def cannot_throttle(directory: Path) -> str | None:
    """The reason why no process can have a slow disk at the directory; None if one can."""
    if not has_sys_admin():
        return "only root can delay a process's writes"
    if find_controller() is None:
        return "this kernel has no control groups that limit writes (io or blkio)"
    try:
        device_of(directory)
    except ClusterError as why:
        return str(why)
    return None


def device_of(directory: Path) -> str:
    """The disk that holds the directory, as MAJOR:MINOR. Raises CliError."""
    try:
        number = directory.stat().st_dev
    except OSError as why:
        raise CliError(f"the disk of {directory} is not known: {why}") from None
    major, minor = os.major(number), os.minor(number)
    device = SYS / "dev" / "block" / f"{major}:{minor}"
    if major == 0 or not device.exists():
        raise CliError(f"{directory} is on no block device, whose writes could be delayed")
    if (device / "partition").exists():
        return _text(device.resolve().parent / "dev").strip()
    return f"{major}:{minor}"


class SlowProcess:
    """A process whose writes are delayed from `begin` to `end`, in a group of its own."""

    def __init__(self, name: str, pid: int, directory: Path) -> None:
        """`name`: that of the group, which no other fault of this machine has."""
        found = find_controller()
        if found is None:
            raise CliError("this kernel has no control groups that limit writes (io or blkio)")
        self._controller = found
        self._name = name
        self._pid = pid
        self._device = device_of(directory)
        self._before: Path | None = None
        self._group: Path | None = None

    def begin(self, writes_per_s: int = WRITES_PER_S) -> None:
        """Delay the writes. Raises CliError; `end` then takes back what was done."""
        self._before = self._controller.group_of(self._pid)
        self._group = self._controller.make_group(self._name)
        self._controller.write_limit(self._group, self._device, writes_per_s)
        _write(self._group / _MEMBERS, str(self._pid))

    def end(self) -> None:
        """Let the writes pass. The process may have ended, and may have been started again.

        Raises CliError.
        """
        group, self._group = self._group, None
        if group is None:
            return
        self._controller.write_limit(group, self._device, None)
        for pid in _text(group / _MEMBERS).split():
            with contextlib.suppress(ClusterError):  # it has just ended
                _write((self._before or self._controller.root) / _MEMBERS, pid)
        with contextlib.suppress(OSError):  # a process that ends is a member until it has ended
            group.rmdir()


class SlowContainer:
    """A container whose writes are delayed from `begin` to `end`, in the group that it has."""

    def __init__(self, pid: int, directory: Path) -> None:
        found = find_controller()
        if found is None:
            raise CliError("this kernel has no control groups that limit writes (io or blkio)")
        self._controller = found
        self._pid = pid
        self._device = device_of(directory)
        self._group: Path | None = None

    def begin(self, writes_per_s: int = WRITES_PER_S) -> None:
        """Delay the writes. Raises CliError."""
        group = self._controller.group_of(self._pid)
        if group == self._controller.root:
            raise CliError("the container has no control group of its own")
        self._controller.write_limit(group, self._device, writes_per_s)
        self._group = group

    def end(self) -> None:
        """Let the writes pass. The group is gone if the container has ended."""
        group, self._group = self._group, None
        if group is not None and group.exists():
            self._controller.write_limit(group, self._device, None)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as why:
        raise CliError(f"{file} does not take {text!r}: {why.strerror or why}") from None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
