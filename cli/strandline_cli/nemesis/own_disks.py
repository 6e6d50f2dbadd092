"""Making the disks of `strandline up --own-disks MIB`, and finding them for faults."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strandline_cli.errors import UsageMistake
from strandline_cli.nemesis.disks import Disk, cannot_cut
from strandline_local.own_disks import image_of
from strandline_local.tools import run_tool

MIB_MIN: Final = 64
MIB_MAX: Final = 2048


def make_disks(directory: Path, names: Iterable[str], mib: int) -> None:
    """Makes the images that are missing. Raises UsageMistake, or CliError if a tool fails."""
    if why := cannot_cut():
        raise UsageMistake(f"--own-disks: {why}; start the cluster without it")
    for name in names:
        image, path = image_of(directory, name), directory / name
        if image.exists():
            continue
        if path.is_dir() and any(path.iterdir()):
            raise UsageMistake(
                f"--own-disks: {path} has data on the machine's own disk; use another --dir"
            )
        image.parent.mkdir(parents=True, exist_ok=True)
        part = image.with_suffix(".part")
        with part.open("wb") as file:
            file.truncate(mib << 20)
        run_tool("mkfs.ext4", "-q", "-F", part)
        part.rename(image)


def disk_of(directory: Path, name: str) -> Disk | None:
    """The mounted disk of a server's own; None if it has none."""
    path = directory / name
    return Disk(path) if image_of(directory, name).exists() and path.is_mount() else None
