"""Which build runs here: the version, and the commit that it was made from.

A wheel and a source distribution hold the id in a file, which the build hook has written. In a
checkout the id comes from git's own files, as they are at the moment: no process is started, and
changes that are not committed are not seen.
"""

from __future__ import annotations

import os
from typing import Final

FILE: Final = "build_id.txt"
"""Beside this module, where a build has written it."""
COMMIT_LENGTH: Final = 12
UNKNOWN: Final = "unknown"
_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_LINKS_MAX: Final = 5
"""References to references that are followed in a git directory."""


def build_id(package: str = _HERE) -> str:
    """For instance `0.1.0+7540e83e8f2c`; without a plus where the commit is not known."""
    written = _text(f"{package}/{FILE}")
    if written:
        return written
    # The folder of a package stands in a source root, and that in the checkout.
    root = os.path.dirname(os.path.dirname(package))
    return named(_installed_version(), checked_out_commit(root))


def named(version: str, commit: str) -> str:
    return f"{version}+{commit}" if commit else version


def version_of(build: str) -> str:
    return build.partition("+")[0]


def commit_of(build: str) -> str:
    return build.partition("+")[2]


def checked_out_commit(root: str) -> str:
    """The first digits of the commit that `root` has checked out; empty where git does not say."""
    directory = f"{root}/.git"
    link = _text(directory)  # of a worktree it is a file
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
