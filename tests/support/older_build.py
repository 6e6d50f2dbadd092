"""The sources of an older build, out of this repository's history, to run its servers from."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Final

from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FIRST: Final = "7540e83ea22a12f5bdc923b631504e954f1a0064"
"""What stands for the last release as long as there is none."""
GIT_S: Final = 60.0
_C_SOURCE: Final = "proto/strandline_proto/_records.c"
_C_OBJECT: Final = "proto/strandline_proto/_records.abi3.so"


class NoHistory(Exception):
    """This checkout cannot say what an older build was; the message says why, and what to do."""


def last_release() -> str:
    """The last tag before this commit. Raises NoHistory."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        raise NoHistory(f"{ROOT} has no git history: clone the repository to test upgrades")
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^")
    base = tag.stdout.decode().strip() if tag.returncode == 0 else FIRST
    if _git("cat-file", "-e", f"{base}^{{commit}}").returncode != 0:
        raise NoHistory(
            f"the history here lacks {base}: run `git fetch --unshallow --tags` to test upgrades"
        )
    return base


def materialise(commit: str, to: Path) -> Path:
    """The files of a commit below `to`."""
    done = _git("archive", "--format=tar", commit)
    assert done.returncode == 0, done.stderr.decode()
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", str(to)], input=done.stdout, timeout=GIT_S, check=True)
    is_same = (to / _C_SOURCE).read_bytes() == (ROOT / _C_SOURCE).read_bytes()
    if is_same and (ROOT / _C_OBJECT).exists():
        shutil.copy(ROOT / _C_OBJECT, to / _C_OBJECT)
    return to


def import_path(root: Path) -> str:
    """For PYTHONPATH: a process imports the build in `root`, before the installed one."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    roots = project["tool"]["hatch"]["build"]["dev-mode-dirs"]
    return os.pathsep.join(str(root / name) for name in roots)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, timeout=GIT_S, check=False)
