"""Disks of the servers' own: what is made, mounted and refused. The tools are fakes."""

import os
from pathlib import Path

import pytest

from strandline_cli.errors import UsageMistake
from strandline_cli.nemesis import own_disks as making
from strandline_cli.nemesis.own_disks import disk_of, make_disks
from strandline_local import own_disks
from strandline_local.own_disks import image_of, mount_disk, unmount_disks

TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >> "$FAKES/done"
"""


class Tools:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("mkfs.ext4", "mount", "umount"):
            (directory / name).write_text(TOOL)
            (directory / name).chmod(0o755)

    def done(self) -> list[str]:
        file = self.directory / "done"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKES", str(folder))
    monkeypatch.setattr(making, "cannot_cut", lambda: None)
    return Tools(folder)


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    found: set[Path] = set()
    monkeypatch.setattr(Path, "is_mount", lambda path: path in found)
    return found


def test_disks_are_made_once_and_mounted_where_the_data_is(
    tools: Tools, tmp_path: Path, mounted: set[Path]
) -> None:
    cluster = tmp_path / "cluster"
    for _ in range(2):
        make_disks(cluster, ["controller", "broker-1"], 64)
    made = [image_of(cluster, name) for name in ("controller", "broker-1")]
    assert [image.stat().st_size for image in made] == [64 << 20] * 2
    assert tools.done() == [f"mkfs.ext4 -q -F {image.with_suffix('.part')}" for image in made]
    assert disk_of(cluster, "broker-1") is None, "it is not mounted yet"
    mount_disk(cluster, "broker-1")
    assert tools.done() == [f"mount -o loop,noatime {made[1]} {cluster / 'broker-1'}"]
    mounted.add(cluster / "broker-1")
    mount_disk(cluster, "broker-1")
    assert tools.done() == [], "it is mounted already"
    assert disk_of(cluster, "broker-1") is not None
    unmount_disks(cluster)
    assert tools.done() == [f"umount {cluster / 'broker-1'}"], "the other one is not mounted"


def test_a_cluster_without_disks_of_its_own_needs_no_tool(
    tools: Tools, tmp_path: Path, mounted: set[Path]
) -> None:
    mount_disk(tmp_path, "broker-1")
    unmount_disks(tmp_path)
    assert tools.done() == []
    assert disk_of(tmp_path, "broker-1") is None
    assert own_disks.image_of(tmp_path, "broker-1") == tmp_path / "disks" / "broker-1.img"


def test_data_on_the_machines_disk_is_not_hidden_below_another(
    tools: Tools, tmp_path: Path
) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "meta.json").touch()
    with pytest.raises(UsageMistake, match="has data on the machine's own disk"):
        make_disks(tmp_path, ["broker-1"], 64)
    assert tools.done() == []


def test_a_machine_without_such_disks_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "cannot_cut", lambda: "only root can mount a disk")
    with pytest.raises(UsageMistake, match="--own-disks: only root can mount a disk"):
        make_disks(tmp_path, ["broker-1"], 64)
