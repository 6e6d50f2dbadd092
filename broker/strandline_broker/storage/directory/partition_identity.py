"""The identity of a directory whose `partition.metadata` is gone, or differs from what was written
(I-36).

The records beside it are sound, so such a directory is not given up. If it can belong to one
replica only, the metadata is written again, and the log is opened as after an unclean stop. The
broker's list of hosted replicas gives the candidates, and the seal of the lost metadata selects
one. Without a seal the controller decides: it knows the id of the topic in the directory's name.
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
from strandline_broker.storage.files.partition_metadata import (
    read_partition_metadata,
    sealed_as,
    write_partition_metadata,
)
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.log.new_log import NewLog
    from strandline_runtime.runtime import FileSystem


class PartitionDirs:
    """The partitions' directories of one data directory; used in one place at a time."""

    def __init__(self, fs: FileSystem, root: str, report: Report) -> None:
        self.unknown: list[UnknownDir] = []
        """The directories whose topic is unknown, as of the last `look`."""
        self._fs = fs
        self._root = root
        self._report = report
        self._identified: set[str] = set()

    def look(self) -> list[PartitionDir]:
        """List the directories whose topic is known, by name."""
        found, self.unknown = find_partitions(self._fs, self._root, self._report)
        return found

    def are_among(self, opened: Container[tuple[str, int]]) -> bool:
        """True if no replica lies here other than `opened`."""
        here = self.look()
        return not self.unknown and all((p.topic, p.partition) in opened for p in here)

    def could_be(self, unknown: UnknownDir, topic_id: bytes) -> bool:
        return sealed_as(self._fs, unknown.path, topic_id) is not False

    def is_surely(self, unknown: UnknownDir, topic_id: bytes) -> bool:
        return sealed_as(self._fs, unknown.path, topic_id) is True

    def identify(self, unknown: UnknownDir | PartitionDir, topic_id: bytes) -> PartitionDir:
        """Write the topic id of a directory again."""
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
        """True if the directory's identity was lost."""
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
    """True if the content of a new log's directory must be set aside. Raises KafkaStorageError if
    it is a replica.

    A directory without metadata comes from an interrupted creation; with segments in it, it is a
    stray. A directory that was never recorded as hosted is an interrupted creation too: it is
    continued, or set aside if it belongs to another topic. A directory of another topic whose log
    `is_open` is still to be removed.
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
    """Identify each unknown directory whose seal names one replica, if that replica is found
    nowhere else and no other seal names it.
    """
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
            with contextlib.suppress(OSError):  # the controller's answer causes another try
                directory.partition_dirs.identify(each, topic_id)
