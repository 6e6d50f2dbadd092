"""Disks that lose power under real processes: an ext4 image for each, on a loop device.

`EXT4_IOC_SHUTDOWN` ends a mounted file system as a loss of power does: nothing that was not flushed
reaches the image. It takes root and loop devices.
"""

import fcntl
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

_SHUTDOWN: Final = 0x8004587D
_WITHOUT_FLUSHING_THE_JOURNAL: Final = struct.pack("I", 2)
_CAP_SYS_ADMIN: Final = 21
_SIZE: Final = 64 << 20
_TOOLS: Final = ("mkfs.ext4", "mount", "umount", "sync")
_TOOL_S: Final = 60.0


def cannot_cut() -> str | None:
    """Why this machine has no such disks; None: it has."""
    capabilities = re.search(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())
    if capabilities is None or not int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1:
        return "only root can mount a file system to cut its power"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(missing)} here: no file system of a test's own can lose power"
    loops = Path("/dev/loop-control").exists()
    if not loops or "\text4\n" not in Path("/proc/filesystems").read_text():
        return "no loop devices or no ext4 here: no file system of a test's own can lose power"
    return None


class PowerDisk:
    """Mounted at `path` until `close`."""

    def __init__(self, image: Path, path: Path) -> None:
        self._image, self.path = image, path
        self._mounted = self._was_cut = False
        self._times = 0
        path.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-F", image)
        self.on()
        (path / "lost+found").rmdir()
        self.flush()

    def on(self) -> None:
        """Power is back: what the image holds is there.

        A mount namespace that another test made meanwhile keeps the file system that was cut, as
        long as its processes live. A mount of the same image would be that file system again, and
        fail in every operation. So a copy of the image is mounted.
        """
        if self._was_cut:
            self._times += 1
            image = self._image.with_suffix(f".{self._times}.img")
            shutil.copyfile(self._image, image)
            self._image.unlink()
            self._image, self._was_cut = image, False
        # The journal is committed when somebody asks for it, and not by the clock.
        _run("mount", "-o", "loop,noatime,commit=300", self._image, self.path)
        self._mounted = True

    def flush(self) -> None:
        """All that was written so far survives."""
        _run("sync", "-f", self.path)

    def cut(self) -> None:
        """Whatever is not on the image is gone; every operation fails from here on."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _WITHOUT_FLUSHING_THE_JOURNAL)
        finally:
            os.close(fd)
        self._was_cut = True

    def off(self) -> None:
        """Nobody may have a file open here any more."""
        if self._mounted:
            _run("umount", self.path)
            self._mounted = False


def _run(*command: object) -> None:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=_TOOL_S, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
