"""A read-only survey of a stopped broker's data directory and of its logs.

`controller restore` uses it. It reports three things (P-76):

- The cluster and store that the broker obeyed, and how far.
- The replicas in the directory.
- The greatest leader epoch and producer id in any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.directory.directory import DirectoryError
from strandline_broker.storage.directory.meta_properties import read_meta_properties
from strandline_broker.storage.directory.partition_dirs import LOCK_NAME, find_partitions
from strandline_broker.storage.directory.strandline_state import BrokerState, read_state
from strandline_broker.storage.files.file import File, read_whole
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.producer_snapshot import SNAPSHOT_NAME, parse
from strandline_broker.storage.segment.segment import SEGMENT_NAME
from strandline_proto.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, read_header
from strandline_proto.ids import CHOSEN_PRODUCER_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.storage.directory.meta_properties import MetaProperties
    from strandline_broker.storage.directory.partition_dirs import PartitionDir
    from strandline_broker.storage.files.damage import Report
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FoundLog:
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    """Greatest leader epoch; -1 if none is known, as for `producer_id`."""
    producer_id: int
    """Greatest producer id that a controller has assigned; ids that producers choose do not
    count.
    """


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    path: str
    meta: MetaProperties
    state: BrokerState
    logs: tuple[FoundLog, ...]


def lock_directory(fs: FileSystem, path: str) -> int:
    """Lock the directory against every server until the descriptor is closed. Raises DirectoryError
    if a server is using it.
    """
    try:
        return fs.lock(f"{path}/{LOCK_NAME}")
    except BlockingIOError as error:
        raise DirectoryError(
            f"{path} is in use by a running server: stop it; nothing may change meanwhile"
        ) from error
    except OSError as error:
        raise DirectoryError(f"{path} cannot be locked ({error.strerror})") from error


def survey(fs: FileSystem, path: str, report: Report) -> FoundDirectory:
    """Survey the directory at `path`. Raises DirectoryError if it is not a broker's, or its owner
    is unknown.
    """
    try:
        meta = read_meta_properties(fs, path)
        state = read_state(fs, path)
    except ValueError as error:
        raise DirectoryError(f"{path} does not read: {error}") from error
    if meta is None:
        raise DirectoryError(f"{path} has no meta.properties: it is no server's data directory")
    if meta.store_id is not None:
        raise DirectoryError(f"{path} is the data directory of a controller, not of a broker")
    partitions, _ = find_partitions(fs, path, report)
    logs = tuple(_look(fs, found, report) for found in partitions)
    return FoundDirectory(path, meta, state if state is not None else BrokerState(), logs)


def _look(fs: FileSystem, found: PartitionDir, report: Report) -> FoundLog:
    epochs = LeaderEpochs.load(fs, found.path, report)
    leader_epoch = -1 if epochs is None else epochs.latest()
    producer_id = -1
    for name in fs.listdir(found.path):
        path = f"{found.path}/{name}"
        if SNAPSHOT_NAME.fullmatch(name):
            try:
                entries = parse(read_whole(fs, path))
            except ValueError as error:
                report(f"{path} does not read ({error}) and is passed over.")
                continue
            producer_id = _greatest_given(producer_id, *(e.producer_id for e in entries))
        elif SEGMENT_NAME.fullmatch(name):
            for header in _headers(File(fs, path)):
                leader_epoch = max(leader_epoch, header.leader_epoch)
                producer_id = _greatest_given(producer_id, header.producer_id)
    return FoundLog(found.topic, found.topic_id, found.partition, leader_epoch, producer_id)


def _greatest_given(known: int, *found: int) -> int:
    return max([known, *(one for one in found if one not in CHOSEN_PRODUCER_IDS)])


def _headers(file: File) -> Iterator[BatchHeader]:
    """The headers of a segment's batches, up to the first bytes that cannot be one."""
    position, size = 0, file.size()
    while position + HEADER_SIZE <= size:
        data = file.read(READ_BYTES, position)
        at = 0
        while at + HEADER_SIZE <= len(data):
            header = read_header(data, at)
            if header.magic != MAGIC or header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
                return
            yield header
            at += header.size
        position += at
