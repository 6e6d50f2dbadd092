"""Disks of the servers' own, for a cluster of processes: `strandline up --own-disks MIB`.

Each server's data directory is an ext4 image on a loop device. So one server's disk can be full or
slow, and no other's. It takes root. `up` and `start` mount the images, `down` unmounts them.
"""

import contextlib
from pathlib import Path
from typing import Final

from strandline_local.errors import ClusterError
from strandline_local.tools import run_tool

_FOLDER: Final = "disks"
_LOST: Final = "lost+found"


def image_of(directory: Path, name: str) -> Path:
    """The image of a server's disk; it need not exist."""
    return directory / _FOLDER / f"{name}.img"


def mount_disk(directory: Path, name: str) -> None:
    """Mounts the server's disk if it has one that is not mounted. Raises ClusterError."""
    image, path = image_of(directory, name), directory / name
    if not image.exists() or path.is_mount():
        return
    path.mkdir(parents=True, exist_ok=True)
    run_tool("mount", "-o", "loop,noatime", image, path)
    with contextlib.suppress(FileNotFoundError):
        (path / _LOST).rmdir()


def unmount_disks(directory: Path) -> None:
    """Unmounts the disks of a cluster whose servers have ended. One that is in use stays."""
    for image in sorted((directory / _FOLDER).glob("*.img")):
        path = directory / image.stem
        if path.is_mount():
            with contextlib.suppress(ClusterError):
                run_tool("umount", path)
