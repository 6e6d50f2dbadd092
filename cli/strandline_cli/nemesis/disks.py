"""Disks of a cluster's own: an ext4 image for each, on a loop device, that can lose its power, fill
up and stall. They take root and loop devices.

`EXT4_IOC_SHUTDOWN` ends a mounted file system as a loss of power does: nothing that was not flushed
reaches the image. `FIFREEZE` lets every write wait for `FITHAW`.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from strandline_local.tools import run_tool

_SHUTDOWN: Final = 0x8004587D
_WITHOUT_FLUSHING_THE_JOURNAL: Final = struct.pack("I", 2)
_FREEZE: Final = 0xC0045877
_THAW: Final = 0xC0045878
_CAP_SYS_ADMIN: Final = 21
_SIZE: Final = 64 << 20
_TOOLS: Final = ("mkfs.ext4", "mount", "umount", "sync")
_BALLAST: Final = "ballast"
_PIECES: Final = (16 << 20, 1 << 20, 1 << 16, 1 << 12)
_REST_S: Final = 0.05
_LAST_S: Final = 10.0


def has_sys_admin() -> bool:
    """True if this process may mount file systems and make namespaces."""
    try:
        capabilities = re.search(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())
    except OSError:
        return False
    return capabilities is not None and bool(int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1)


def cannot_cut() -> str | None:
    """The reason why this machine has no such disks; None if it has."""
    if not has_sys_admin():
        return "only root can mount a disk of a run's own"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(missing)} here: a run can have no disk of its own"
    loops = Path("/dev/loop-control").exists()
    if not loops or "\text4\n" not in Path("/proc/filesystems").read_text():
        return "no loop devices or no ext4 here: a run can have no disk of its own"
    return None


class Disk:
    """A file system that is mounted at `path`, and that no other server uses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._staller: subprocess.Popen[bytes] | None = None

    # A full disk.

    def fill(self) -> None:
        """Leave no byte free."""
        fd = os.open(self.path / _BALLAST, os.O_WRONLY | os.O_CREAT, 0o600)
        size = os.fstat(fd).st_size
        try:
            for piece in _PIECES:
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(fd, size, piece)
                        size += piece
        finally:
            os.close(fd)

    def make_room(self) -> None:
        """Free what `fill` took."""
        (self.path / _BALLAST).unlink(missing_ok=True)

    # A slow disk.

    def stall(self, stall_ms: int) -> None:
        """Let writes wait for `stall_ms`, again and again, until `release`."""
        assert self._staller is None
        words = [sys.executable, "-m", __name__, str(self.path), str(stall_ms)]
        self._staller = subprocess.Popen(words, stdin=subprocess.PIPE)

    def release(self) -> None:
        """Let writes pass again."""
        staller, self._staller = self._staller, None
        if staller is None:
            return
        assert staller.stdin is not None
        staller.stdin.close()
        try:
            staller.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            staller.kill()
            staller.wait()
            thaw(self.path)


class PowerDisk(Disk):
    """A disk that is mounted at `path` until `off`."""

    def __init__(self, image: Path, path: Path, *, size: int = _SIZE) -> None:
        super().__init__(path)
        self._image = image
        self._mounted = self._was_cut = False
        self._times = 0
        path.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(size)
        run_tool("mkfs.ext4", "-q", "-F", image)
        self.on()
        (path / "lost+found").rmdir()
        self.flush()

    def on(self) -> None:
        """Power returns: the disk has what the image holds.

        A mount namespace that another process made meanwhile keeps the file system that was cut, as
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
        run_tool("mount", "-o", "loop,noatime,commit=300", self._image, self.path)
        self._mounted = True

    def flush(self) -> None:
        """All that was written so far survives."""
        run_tool("sync", "-f", self.path)

    def cut(self) -> None:
        """The power fails: data that is not on the image is gone, and every operation fails."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _WITHOUT_FLUSHING_THE_JOURNAL)
        finally:
            os.close(fd)
        self._was_cut = True

    def off(self) -> None:
        """No process may have a file open here any more."""
        self.release()
        if self._mounted:
            run_tool("umount", self.path)
            self._mounted = False


def thaw(path: Path) -> None:
    """End a freeze, if there is one."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, _THAW, 0)
    except OSError as why:
        if why.errno not in (errno.EINVAL, errno.EIO):
            raise
    finally:
        os.close(fd)


def _stall_until_released(path: Path, stall_s: float) -> None:
    """Freeze and thaw by turns until the parent closes standard input, even by its death. A frozen
    file system would keep its processes for ever, so nothing else ends this one.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_blocking(0, False)
    fd = os.open(path, os.O_RDONLY)
    while True:
        with contextlib.suppress(BlockingIOError):
            if os.read(0, 1) == b"":
                return
        fcntl.ioctl(fd, _FREEZE, 0)
        try:
            time.sleep(stall_s)
        finally:
            fcntl.ioctl(fd, _THAW, 0)
        time.sleep(_REST_S)


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the file system's power was cut
        _stall_until_released(Path(sys.argv[1]), int(sys.argv[2]) / 1000)
