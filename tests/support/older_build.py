"""The last release: its sources out of this repository's history, its wheel, and an environment in
which a user has installed that wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import release
from support.command import clean_environ
from support.installed_wheel import installed
from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from release import Release

GIT_S: Final = 60.0
BUILD_S: Final = 300.0
COMMIT_LENGTH: Final = 12


class NoHistory(Exception):
    """This checkout cannot say what the last release was; the message says why, and what to do."""


def last_release() -> Release:
    """The newest release of tools/releases.toml. Raises NoHistory if its commit is not here."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        raise NoHistory(f"{ROOT} has no git history: clone the repository to test upgrades")
    newest = release.releases_of(ROOT)[0]
    if _git("cat-file", "-e", f"{newest.commit}^{{commit}}").returncode != 0:
        raise NoHistory(
            f"the history here lacks {newest.commit[:COMMIT_LENGTH]}, release {newest.version}:"
            " run `git fetch --unshallow` to test upgrades"
        )
    return newest


def build_of(of: Release) -> str:
    """The id that its servers say."""
    return f"{of.version}+{of.commit[:COMMIT_LENGTH]}"


def materialise(commit: str, to: Path) -> Path:
    """The files of a commit below `to`."""
    done = _git("archive", "--format=tar", commit)
    assert done.returncode == 0, done.stderr.decode()
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", str(to)], input=done.stdout, timeout=GIT_S, check=True)
    return to


def wheel_of(of: Release) -> Path:
    """Its wheel, which its own build hook makes once, and the user's cache folder keeps."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache_home) if cache_home else Path.home() / ".cache"
    kept = base / "strandline-releases" / build_of(of)
    if made := sorted(kept.glob("*.whl")):
        return made[0]
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        sources = materialise(of.commit, Path(folder, "sources"))
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        done = subprocess.run(
            [*command, "--directory", str(Path(folder, "dist"))],
            cwd=sources,
            env=clean_environ({"STRANDLINE_COMMIT": of.commit[:COMMIT_LENGTH]}),
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = Path(folder, "dist").iterdir()
        kept.mkdir(exist_ok=True)
        # Whole or not at all: another process of tests may build it too.
        return wheel.replace(kept / wheel.name)


def installed_release(of: Release, folder: Path) -> Path:
    """The `strandline` command of a fresh environment with its wheel."""
    return installed(wheel_of(of), folder).with_name("strandline")


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, timeout=GIT_S, check=False)
