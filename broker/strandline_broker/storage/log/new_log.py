"""Creation of a log: its owner and its directory, in an order that a crash can interrupt.

The order is: `partition.metadata`, durable; then the first segment and the start of the leader's
epoch (I-46). After a crash the directory therefore belongs to this replica, or it names no replica
and holds no data (`partition_identity.is_stray`). The steps of many logs run side by side, so that
the disk makes them durable together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.storage.files.partition_metadata import writing_partition_metadata
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.recovery import Recovered
from strandline_broker.storage.segment.damaged_ranges import DamagedRanges
from strandline_broker.storage.segment.recent_batches import RecentBatches
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
    """Epoch in which this broker leads the new partition; it is written with the first
    checkpoint.
    """

    @property
    def name(self) -> str:
        """The name of the log's directory, as Kafka writes it."""
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


def replica_gone(path: str, new: NewLog) -> KafkaStorageError:
    return KafkaStorageError(
        f"{path} is gone, or holds no log, but this broker has held {new.topic}:{new.partition} "
        "before: its records may exist nowhere else, so it does not start over empty. Put the "
        "directory back, or move the whole data directory away to rejoin as an empty broker"
    )


def beginning(fs: FileSystem, path: str, new: NewLog, *, is_made: bool) -> Steps[Recovered | None]:
    """Claim the directory at `path` for `new`, and begin an empty log in it if it `is_made` just
    now.

    None if the directory was there before, from an interrupted creation: its content is then
    recovered.
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
