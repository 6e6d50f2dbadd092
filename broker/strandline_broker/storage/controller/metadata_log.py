"""The controller's store: the log `__cluster_metadata-0`, in our own format, with snapshots beside
it (P-84).

One record batch is one atomic decision, durable before `append` returns. At most the last batch can
therefore be torn after a crash. A bad batch with a sound one after it is damage.

A snapshot stands for all records below its end offset. Once it is durable, the log drops the
segments that the previous snapshot covers. Two starting points therefore always exist: if the
newest snapshot does not parse, the previous one and the longer rest of the log give the same state.
A log that is neither whole nor continued from a snapshot is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.controller.metadata_snapshot import (
    BadSnapshot,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    values_of,
    write_snapshot,
)
from strandline_broker.storage.directory.directory import DirectoryError
from strandline_broker.storage.directory.meta_properties import FILE_NAME as META_NAME
from strandline_broker.storage.files.damage import METADATA_REMEDY
from strandline_broker.storage.files.file import NO_SPACE, PASSING
from strandline_broker.storage.log.log import INT64_MAX, LogConfig
from strandline_broker.storage.segment.segment import SEGMENT_NAME
from strandline_proto.batch import build_batch, crc_matches, iter_headers, read_header
from strandline_proto.errors import CorruptMessage, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.directory.partition_dirs import PartitionDir
    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import FileSystem

TOPIC: Final = "__cluster_metadata"
DIRECTORY: Final = f"{TOPIC}-0"
TOPIC_ID: Final = bytes(15) + b"\x01"
"""The id that Kafka reserves for its metadata topic."""
CONFIG: Final = LogConfig(segment_ms=INT64_MAX)
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The records' values of the snapshot from which a start begins."""

    end_offset: int
    values: Sequence[bytes]


def check_identity(fs: FileSystem, root: str) -> None:
    """Raise DirectoryError if a store lies in `root` and its cluster is unknown.

    Under another id the store would count as another cluster's, and end every broker that asks it.
    """
    store, meta = f"{root}/{DIRECTORY}", f"{root}/{META_NAME}"
    if fs.exists(store) and not fs.exists(meta):
        raise DirectoryError(
            f"{store} is there and {meta}, which says of which cluster and store it is, is gone: "
            f"put it back from a copy, or rebuild the store from the brokers with `strandline "
            f"controller restore --discard-store`"
        )


class NoRoom(KafkaStorageError):
    """The disk is full, or another resource for the write is exhausted. The write was refused whole
    and may be retried.
    """


class MetadataLog:
    """The metadata log. `append`, `seal` and `forget_covered` are called one at a time.
    `write_snapshot` may run beside them, also one at a time.
    """

    __slots__ = ("_directory", "_failed", "_fs", "_log", "snapshot", "snapshots")

    def __init__(
        self,
        fs: FileSystem,
        directory: DataDirectory,
        log: Log,
        kept: Sequence[SnapshotId] = (),
        snapshot: StoredSnapshot | None = None,
    ) -> None:
        """Use `open` to create one."""
        self.snapshot = snapshot
        self._fs = fs
        self._directory = directory
        self._log = log
        self.snapshots = tuple(kept)
        """The snapshots from which the log continues, oldest first."""
        self._failed = False

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: DataDirectory,
        report: Report,
        *,
        of_any_store: bool = False,
    ) -> MetadataLog:
        """Load the log or begin it.

        Raises DamagedLog or DirectoryError if earlier decisions are missing, and LaterSnapshot if a
        later build wrote one of its snapshots. With `of_any_store` snapshots of other stores are
        accepted.
        """
        path = f"{directory.path}/{DIRECTORY}"
        found = _find(directory)
        if found is not None:
            named = list_snapshots(fs, path)
            if named and not any(map(SEGMENT_NAME.fullmatch, fs.listdir(path))):
                raise DirectoryError(
                    f"{path} has snapshots and no log: its segment files are gone; "
                    f"{METADATA_REMEDY}"
                )
            log = directory.load_log(found, CONFIG, report, one_batch_at_a_time=True)
            store_id = None if of_any_store else directory.store_id
            kept, snapshot = _begin_from(fs, log, named, store_id, report)
            return cls(fs, directory, log, kept, snapshot)
        try:
            return cls(fs, directory, directory.create_log(TOPIC, TOPIC_ID, 0, CONFIG))
        except KafkaStorageError as error:
            aside = directory.strays()
            hint = f"; rename {aside[-1]} back to it, if that is it" if aside else ""
            raise DirectoryError(
                f"{path} is gone, but the controller has kept its decisions there; put the "
                f"directory back from a copy{hint}"
            ) from error

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """Start of the log: records below are in a snapshot only."""
        return self._log.log_start_offset

    @property
    def bytes_since_snapshot(self) -> int:
        """Bytes of the segments with records that the newest snapshot does not cover."""
        covered = self.snapshots[-1].end_offset if self.snapshots else 0
        return sum(s.size for s in self._log.segments if s.base_offset >= covered)

    def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """(base offset, last offset, record values) of each decision that `snapshot` does not
        cover, oldest first.
        """
        log = self._log
        position = log.log_start_offset if self.snapshot is None else self.snapshot.end_offset
        while position < log.log_end_offset:
            run = log.read(position, max_bytes=READ_BYTES, limit=log.log_end_offset)
            for at, header in iter_headers(run.records):
                if not crc_matches(run.records, at, header):
                    raise KafkaStorageError(
                        f"the decision at offset {header.base_offset} does not match its CRC-32C; "
                        f"{METADATA_REMEDY}"
                    )
                try:
                    values = values_of(run.records, at, header)
                except CorruptMessage as error:
                    raise KafkaStorageError(
                        f"the decision at offset {header.base_offset} does not read: {error}; "
                        f"{METADATA_REMEDY}"
                    ) from error
                yield header.base_offset, header.last_offset, values
            position = run.next_offset

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        """Append a decision durably; returns its (base, last offset).

        On NoRoom nothing was written. Any other error is final: the content of the disk is unknown
        (P-24).
        """
        assert values, "a decision has at least one record"
        assert not self._failed, "the metadata log failed before; the process must have ended"
        self._failed = True
        batch = build_batch(((None, value) for value in values), timestamp_ms=now_ms)
        try:
            appended = self._log.append_as_leader(
                batch, read_header(batch), leader_epoch=controller_epoch
            )
        except OSError as error:
            if error.errno not in PASSING:
                raise
            raise self._no_room(error) from error
        ticket = self._log.flush_snapshot()
        ticket.run()
        self._log.flushed(ticket)
        self._failed = False
        return appended.base_offset, appended.next_offset - 1

    def _no_room(self, error: OSError) -> NoRoom:
        """Cut off what a failed append has written; returns the error to raise."""
        self._log.state.check_usable()
        self._failed = False
        remedy = "free disk space" if error.errno in NO_SPACE else "raise the limit"
        return NoRoom(
            f"the controller cannot write its decision to {self._log.path} ({error.strerror}): "
            f"nothing was decided; {remedy}, then ask again"
        )

    def seal(self) -> None:
        """End the active segment, so that it can be removed once a snapshot covers it. After an
        OSError the log continues in it.
        """
        if self._log.segments[-1].size > 0:
            self._log.roll()

    def write_snapshot(
        self, values: Iterable[bytes], *, end_offset: int, controller_epoch: int, now_ms: int
    ) -> int:
        """Write the state after all records below `end_offset`, durably; returns the bytes written.
        After an OSError nothing was gained or lost.
        """
        assert end_offset <= self.end_offset, (end_offset, self.end_offset)
        store_id = self._directory.store_id
        assert store_id is not None, self._log.path
        return write_snapshot(
            self._fs,
            self._log.path,
            SnapshotId(end_offset, controller_epoch),
            values,
            store_id=store_id,
            now_ms=now_ms,
        )

    def forget_covered(self, *, end_offset: int, controller_epoch: int) -> int:
        """Remove the segments that the previous snapshot covers, and the snapshots before that one;
        returns the number of segments.

        The caller has finished `write_snapshot`. A crash between any two steps leaves a valid
        starting point. After an OSError a later call removes the rest.
        """
        log = self._log
        self.snapshots = (*self.snapshots[-1:], SnapshotId(end_offset, controller_epoch))
        start = self.snapshots[0].end_offset if len(self.snapshots) > 1 else log.log_start_offset
        gone = tuple(s for s in log.segments[:-1] if s.end_offset <= start and s.flushed)
        if gone:
            log.raise_log_start(gone[-1].end_offset)
            self._directory.write_log_starts({(TOPIC, 0): log.log_start_offset})
            log.leader_epochs.truncate_from_start(log.log_start_offset)
            if not log.drop_segments(gone):
                gone = ()
        if gone or log.deleted_segments.is_behind:
            # Segments that an error left are removed too, and first: a log must not have a hole.
            log.deleted_segments.add(gone, now_ms=0, delay_ms=0)
            log.deleted_segments.purge(0)
        for old in list_snapshots(self._fs, log.path):
            if old < self.snapshots[-1] and old not in self.snapshots:
                self._fs.unlink(f"{log.path}/{old.name}")
        return len(gone)

    def close(self) -> None:
        self._log.close()


def _find(directory: DataDirectory) -> PartitionDir | None:
    """The directory of the log. Its name identifies it: if the metadata is missing or contradicts,
    it is written again.
    """
    partitions = directory.partitions()
    dirs = directory.partition_dirs
    for found in partitions:
        if (found.topic, found.partition) == (TOPIC, 0):
            return found if found.topic_id == TOPIC_ID else dirs.identify(found, TOPIC_ID)
    for unknown in dirs.unknown:
        if (unknown.topic, unknown.partition) == (TOPIC, 0):
            return dirs.identify(unknown, TOPIC_ID)
    return None


def _begin_from(
    fs: FileSystem,
    log: Log,
    named: Sequence[SnapshotId],
    store_id: str | None,
    report: Report,
) -> tuple[list[SnapshotId], StoredSnapshot | None]:
    """The newest snapshot that parses, and the snapshots from which the log can be continued."""
    if named and named[-1].end_offset > log.log_end_offset:
        raise DirectoryError(
            f"the log in {log.path} ends at offset {log.log_end_offset}, but its snapshot "
            f"{named[-1].name} was taken later: segment files are gone or were replaced; "
            f"{METADATA_REMEDY}"
        )
    bad: list[str] = []
    for i in range(len(named) - 1, -1, -1):
        at = named[i]
        try:
            values = read_snapshot(fs, log.path, at, store_id=store_id)
        except BadSnapshot as error:
            bad.append(str(error))
            continue
        if log.log_start_offset > at.end_offset:
            break
        for why in bad:
            report(f"{why}. The controller begins from {at.name} and the rest of the log.")
        return [s for s in named[: i + 1] if s.end_offset >= log.log_start_offset], StoredSnapshot(
            at.end_offset, values
        )
    if log.log_start_offset > 0:
        why = f" ({'; '.join(bad)})" if bad else ""
        raise DirectoryError(
            f"the log in {log.path} begins at offset {log.log_start_offset} and no snapshot covers "
            f"what came before{why}; {METADATA_REMEDY}"
        )
    for why in bad:
        report(f"{why}. The log is whole, so the controller replays it from its first record.")
    return [], None
