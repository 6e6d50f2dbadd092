"""The id of the running build: the version, and the commit from which it was made.

A wheel and a source distribution contain the id in a file, which the build hook writes. In a
checkout the id comes from git's own files, as they are at the moment. No process is started, and
uncommitted changes are not detected.
"""

from __future__ import annotations

import os
from typing import Final

FILE: Final = "build_id.txt"
"""Name of the file with the id, beside this module, if a build has written it."""
COMMIT_LENGTH: Final = 12
UNKNOWN: Final = "unknown"
_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_LINKS_MAX: Final = 5
"""Limit on references to references in a git directory."""


def build_id(package: str = _HERE) -> str:
    """The build's id, for instance `0.1.0+7540e83e8f2c`; without a plus if the commit is
    unknown.
    """
    written = _text(f"{package}/{FILE}")
    if written:
        return written
    # The package's folder is in a source root, which is in the checkout.
    root = os.path.dirname(os.path.dirname(package))
    return named(_installed_version(), checked_out_commit(root))


def named(version: str, commit: str) -> str:
    return f"{version}+{commit}" if commit else version


def version_of(build: str) -> str:
    return build.partition("+")[0]


def commit_of(build: str) -> str:
    return build.partition("+")[2]


def checked_out_commit(root: str) -> str:
    """The first digits of the commit that `root` has checked out; empty if git's files do not show
    it.
    """
    directory = f"{root}/.git"
    link = _text(directory)  # a worktree has a file here
    if link is not None and link.startswith("gitdir:"):
        directory = os.path.join(root, link.removeprefix("gitdir:").strip())
    common = os.path.join(directory, _text(f"{directory}/commondir") or "")
    value = _text(f"{directory}/HEAD") or ""
    for _ in range(_LINKS_MAX):
        if not value.startswith("ref:"):
            break
        name = value.removeprefix("ref:").strip()
        value = _text(f"{directory}/{name}") or _text(f"{common}/{name}") or _packed(common, name)
    is_commit = len(value) >= COMMIT_LENGTH and set(value) <= set("0123456789abcdef")
    return value[:COMMIT_LENGTH] if is_commit else ""


def _packed(directory: str, name: str) -> str:
    for line in (_text(f"{directory}/packed-refs") or "").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return ""


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("strandline")
    except PackageNotFoundError:
        return UNKNOWN
