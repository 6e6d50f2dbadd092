"""Which replica a directory is whose `partition.metadata` is gone, or not what was written (I-36).

The records beside it are sound, so such a directory is not given up: where it can be of one replica
alone, the metadata is written again, and the log is opened as after an unclean stop. What the
broker remembers to have hosted says which replicas there can be, and the seal of the lost metadata
which of them it is. Where no seal tells, the controller does, which knows the id of the topic that
the directory is named after.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline_broker.storage.directory.partition_dirs import (
    PartitionDir,
    UnknownDir,
    find_partitions,
    has_segments,
)
from strandline_broker.storage.directory.partition_metadata import (
    read_partition_metadata,
    sealed_as,
    write_partition_metadata,
)
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.log.new_log import NewLog
    from strandline_broker.storage.segment.damage import Report
    from strandline_runtime.runtime import FileSystem


class PartitionDirs:
    """The partitions' directories of one data directory; used in one place at a time."""

    def __init__(self, fs: FileSystem, root: str, report: Report) -> None:
        self.unknown: list[UnknownDir] = []
        """Those that do not say whose they are, as of the last look."""
        self._fs = fs
        self._root = root
        self._report = report
        self._identified: set[str] = set()

    def look(self) -> list[PartitionDir]:
        """Those that say whose they are, by name."""
        found, self.unknown = find_partitions(self._fs, self._root, self._report)
        return found

    def are_among(self, opened: Container[tuple[str, int]]) -> bool:
        """Whether no replica lies here but these."""
        here = self.look()
        return not self.unknown and all((p.topic, p.partition) in opened for p in here)

    def could_be(self, unknown: UnknownDir, topic_id: bytes) -> bool:
        return sealed_as(self._fs, unknown.path, topic_id) is not False

    def is_surely(self, unknown: UnknownDir, topic_id: bytes) -> bool:
        return sealed_as(self._fs, unknown.path, topic_id) is True

    def identify(self, unknown: UnknownDir | PartitionDir, topic_id: bytes) -> PartitionDir:
        """Write down again whose it is."""
        write_partition_metadata(self._fs, unknown.path, topic_id)
        self.unknown = [each for each in self.unknown if each.path != unknown.path]
        self._identified.add(unknown.path)
        self._report(
            f"{unknown.path} is the replica of topic id {topic_id_text(topic_id)} that was here "
            f"before: its partition.metadata has been written again, and its log is opened as "
            f"after an unclean stop."
        )
        return PartitionDir(unknown.path, unknown.topic, topic_id, unknown.partition)

    def was_identified(self, path: str) -> bool:
        """Whether what it said of itself was lost."""
        return path in self._identified

    def forget(self, unknown: UnknownDir) -> None:
        self.unknown = [each for each in self.unknown if each.path != unknown.path]


def is_stray(
    fs: FileSystem,
    path: str,
    new: NewLog,
    hosted: Collection[tuple[bytes, int]],
    *,
    is_open: bool,
) -> bool:
    """Whether what lies where a log is to be made has to go. KafkaStorageError if it is a replica.

    A directory without metadata is what a crash left of a creation; with segments in it, it is a
    stray. One that was never noted as hosted is a creation that broke off: it is gone on with, or
    makes way if it was another topic's. One of another whose log `is_open` is yet to be removed.
    """
    if not fs.exists(path):
        return False
    is_hosted = (new.topic_id, new.partition) in hosted
    try:
        found = read_partition_metadata(fs, path)
    except ValueError:
        return not is_hosted
    if found is None:
        return has_segments(fs, path) and not is_hosted
    is_ours = found == new.topic_id
    if (found, new.partition) not in hosted and (is_ours or not is_open):
        return not is_ours
    whose = "this topic" if is_ours else f"topic id {topic_id_text(found)}"
    raise KafkaStorageError(
        f"{path} exists and belongs to {whose}; it is loaded, or removed, before one is created"
    )


def identify_by_seals(
    directories: Iterable[DataDirectory], hosted: Collection[tuple[bytes, int]]
) -> None:
    """A directory whose seal names one replica that is found nowhere, as no other's does, is it."""
    every = list(directories)
    unknown = [(d, each) for d in every for each in d.partition_dirs.unknown]
    if not unknown:
        return
    there = {(p.topic_id, p.partition) for d in every for p in d.partitions()}
    for topic_id, index in set(hosted) - there:
        claiming = [
            (directory, each)
            for directory, each in unknown
            if each.partition == index and directory.partition_dirs.is_surely(each, topic_id)
        ]
        if len(claiming) == 1:
            ((directory, each),) = claiming
            with contextlib.suppress(OSError):  # then the controller's word has it tried again
                directory.partition_dirs.identify(each, topic_id)
