"""The entries of a data directory that are partitions' directories: `<topic>-<partition>` with a
topic id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.directory.clean_shutdown import FILE_NAME as MARKER_NAME
from strandline_broker.storage.directory.meta_properties import FILE_NAME as META_NAME
from strandline_broker.storage.directory.strandline_state import FILE_NAME as STATE_NAME
from strandline_broker.storage.files.atomic_file import TEMPORARY
from strandline_broker.storage.files.checkpoint_limits import SHARED
from strandline_broker.storage.files.failed_flush import FILE_NAME as FAILED_NAME
from strandline_broker.storage.files.partition_metadata import read_partition_metadata
from strandline_broker.storage.files.sealed_file import SUFFIX as SEAL
from strandline_broker.storage.segment.segment import SEGMENT_NAME

if TYPE_CHECKING:
    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

LOCK_NAME: Final = ".lock"
PARTITION_NAME: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
GIVEN_UP_NAME: Final = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)")
OWN_NAMES: Final = frozenset(
    {LOCK_NAME, META_NAME, META_NAME + SEAL, STATE_NAME, MARKER_NAME, FAILED_NAME}
    | {f"{name}{end}" for name in SHARED for end in ("", SEAL)}
)


@dataclass(frozen=True, slots=True)
class PartitionDir:
    path: str
    topic: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class UnknownDir:
    """A directory with segments of a partition whose topic is unknown."""

    path: str
    topic: str
    partition: int


def find_partitions(
    fs: FileSystem, root: str, report: Report
) -> tuple[list[PartitionDir], list[UnknownDir]]:
    """The partitions' directories and the unknown ones, by name. Entries that do not belong in a
    data directory are ignored and reported.
    """
    found, unknown = [], []
    for name in sorted(fs.listdir(root)):
        path = f"{root}/{name}"
        if name in OWN_NAMES or name.endswith(TEMPORARY) or GIVEN_UP_NAME.fullmatch(name):
            continue
        match = PARTITION_NAME.fullmatch(name)
        topic_id = None
        why = "is not a file of a data directory"
        if match is not None and fs.isdir(path):
            why = "has no partition.metadata"
            try:
                topic_id = read_partition_metadata(fs, path)
            except ValueError as error:
                why = f"has a partition.metadata that does not read ({error})"
        if match is None or topic_id is None:
            report(f"{path} {why} and is ignored.")
        else:
            found.append(PartitionDir(path, match[1], topic_id, int(match[2])))
            continue
        if match is not None and fs.isdir(path) and has_segments(fs, path):
            unknown.append(UnknownDir(path, match[1], int(match[2])))
    return found, unknown


def has_segments(fs: FileSystem, path: str) -> bool:
    return any(map(SEGMENT_NAME.fullmatch, fs.listdir(path)))


def find_strays(fs: FileSystem, root: str) -> list[str]:
    """Directories of replicas that no topic claims (I-87)."""
    found = []
    for name in sorted(fs.listdir(root)):
        match = GIVEN_UP_NAME.fullmatch(name)
        if match is not None and match[1] == "stray":
            found.append(f"{root}/{name}")
    return found


def purge_deleted(fs: FileSystem, root: str) -> list[str]:
    """Remove the directories of deleted logs; returns the remaining ones, with reasons."""
    failures = []
    for name in fs.listdir(root):
        match = GIVEN_UP_NAME.fullmatch(name)
        if match is None or match[1] != "delete":
            continue
        try:
            for child in fs.listdir(f"{root}/{name}"):
                fs.unlink(f"{root}/{name}/{child}")
            fs.rmdir(f"{root}/{name}")
        except OSError as error:
            failures.append(f"{root}/{name}: {error}")
    return failures
