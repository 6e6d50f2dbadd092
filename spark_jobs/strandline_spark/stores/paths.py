"""Places of tables: a folder's path, or the address of a prefix in an object store."""

from __future__ import annotations

import os
import re
from typing import Final

SCHEME: Final = "s3://"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_ADDRESS: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/]+)+/*")
_NOT_A_STEP: Final = re.compile(r"/\.{0,2}(?=/)|/\.{1,2}$")


def is_remote(path: str) -> bool:
    """True for a prefix of an object store."""
    return path.startswith(SCHEME)


def has_scheme(path: str) -> bool:
    """True if `path` is of another file system than this machine's, like s3://… and dbfs:/…"""
    return _SCHEME.match(path) is not None


def not_an_address(path: str) -> str | None:
    """Returns what an address of an object store lacks; None if it is one."""
    if _NOT_A_STEP.search(path.removeprefix(SCHEME).rstrip("/")):
        return "it has an empty step, or . or .. as one"
    return None if _ADDRESS.fullmatch(path) else "give s3://BUCKET/FOLDER"


def absolute(path: str) -> str:
    return path.rstrip("/") if is_remote(path) else os.path.abspath(path)


def joined(folder: str, path: str) -> str:
    """Returns `path` below `folder`, without its `..` steps; an absolute one as it is."""
    if is_remote(path):
        return path.rstrip("/")
    found = os.path.join(folder, path)
    return found.rstrip("/") if is_remote(found) else os.path.normpath(found)


def overlap(one: str, other: str) -> bool:
    """True if two places are one, or one is in the other."""
    ends = sorted((f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"), key=len)
    return ends[1].startswith(ends[0])
