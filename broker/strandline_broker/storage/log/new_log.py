"""A log that is made: who it is for, and its directory, in the order that a crash can interrupt.

First `partition.metadata`, durable, then the first segment, and where the leader's epoch begins
(I-46): a directory that a crash leaves is of
this replica, or says nothing and holds nothing (`partition_identity.is_stray`). The steps of many
are taken side by side, so that the disk makes all of it durable together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.storage.directory.partition_metadata import writing_partition_metadata
from strandline_broker.storage.log.damaged_ranges import DamagedRanges
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.recent_batches import RecentBatches
from strandline_broker.storage.log.recovery import Recovered
from strandline_broker.storage.segment.segment import Segment
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.config import LogConfig
    from strandline_runtime.runtime import FileSystem


class NewLog(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    config: LogConfig
    leader_epoch: int | None = None
    """Which this broker leads with it from its start, so that its checkpoint is made with it."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


def replica_gone(path: str, new: NewLog) -> KafkaStorageError:
    return KafkaStorageError(
        f"{path} is gone, or holds no log, but this broker has held {new.name} before: its records "
        f"may exist nowhere else, so it does not start over empty. Put the directory back, or move "
        f"the whole data directory away to rejoin as an empty broker"
    )


def beginning(fs: FileSystem, path: str, new: NewLog, *, is_made: bool) -> Steps[Recovered | None]:
    """Whose the directory at `path` is, and, if it `is_made` just now, an empty log in it. None if
    it was there before, from a creation that broke off: then what it holds is recovered.
    """
    yield from writing_partition_metadata(fs, path, new.topic_id)
    if not is_made:
        return None
    interval = new.config.index_interval_bytes
    segment = Segment.create(fs, path, 0, index_interval=interval)
    epochs = LeaderEpochs(fs, path)
    if new.leader_epoch is not None:
        yield from epochs.assigning([(new.leader_epoch, 0)])
    else:
        yield
        fs.fsync_dir(path)
    return Recovered(
        [segment],
        RecentBatches(0, 0),
        epochs,
        DamagedRanges(fs, path),
        log_start=0,
        log_end=0,
    )
