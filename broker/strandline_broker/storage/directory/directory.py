"""A data directory of a broker or controller: its identity, its lock, its checkpoints and its
partitions' directories.

Opening locks it, checks that it belongs to this node and cluster, and durably removes the
clean-shutdown marker before anything else happens (I-52). The disk pool may write the shared
checkpoint files, each by one caller at a time, while the event loop cuts, creates and removes logs.
Values are clamped to what the logs hold now, and `checkpoint_limits` covers the files' earlier
content. `update_state`, and the methods that use it, run in one place at a time.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.storage.directory.clean_shutdown import (
    NO_EPOCH,
    take_clean_shutdown,
    write_clean_shutdown,
)
from strandline_broker.storage.directory.lock_holder import LockHeld, take_lock
from strandline_broker.storage.directory.meta_properties import FILE_NAME as META_NAME
from strandline_broker.storage.directory.meta_properties import (
    MetaProperties,
    new_directory_id,
    read_meta_properties,
    seal_meta_properties,
    write_meta_properties,
)
from strandline_broker.storage.directory.partition_dirs import (
    PartitionDir,
    find_strays,
    purge_deleted,
)
from strandline_broker.storage.directory.partition_identity import PartitionDirs, is_stray
from strandline_broker.storage.directory.shared_checkpoints import Key, SharedCheckpoints, Taken
from strandline_broker.storage.directory.strandline_state import ALWAYS, BrokerState, Memory
from strandline_broker.storage.directory.strandline_state import FILE_NAME as STATE_NAME
from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits
from strandline_broker.storage.files.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from strandline_broker.storage.files.failed_flush import forget_failed_flush, has_failed_flush
from strandline_broker.storage.files.partition_metadata import seal_partition_metadata
from strandline_broker.storage.files.sealed_file import SUFFIX as SEAL
from strandline_broker.storage.files.steps import side_by_side
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_broker.storage.log.new_log import NewLog, beginning, replica_gone
from strandline_broker.storage.log.recovery import Expectations
from strandline_broker.storage.segment.open_segments import OpenSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from strandline_broker.storage.directory.partition_dirs import UnknownDir
    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.files.steps import Steps
    from strandline_proto.errors import KafkaStorageError
    from strandline_runtime.runtime import FileSystem

NAME_MAX: Final = 255


class DirectoryError(Exception):
    """This process cannot use the data directory; the message says why, and the remedy."""


class DirectoryUnusable(DirectoryError):
    """The disk cannot be used; other directories of the same broker may be usable."""


class DataDirectory:
    def __init__(self, fs: FileSystem, path: str, lock: int, new_id: Callable[[], bytes]) -> None:
        """Use `open` to create one."""
        self.path = path
        self.findings: list[str] = []
        """Anomalies found at opening, in whole sentences, for the host to log."""
        self.previous_broker_epoch = NO_EPOCH
        self.clean = False
        self.is_new = False
        """True if the directory was never used before."""
        self._fs = fs
        self._lock = lock
        self._new_id = new_id
        self._memory = Memory(fs, path)
        self._meta = MetaProperties(-1, "")
        self._logs: dict[tuple[str, int], Log] = {}
        self._checkpoints = SharedCheckpoints(fs, path)
        self._limits_from = 0
        """Next number for a limit, above those of all deleted logs, whose removal may be
        under way.
        """
        self._were_always = False
        self._open_segments = OpenSegments()
        self.partition_dirs = PartitionDirs(fs, path, self._find)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: str,
        *,
        node_id: int,
        cluster_id: str | None,
        new_id: Callable[[], bytes],
        open_segments: OpenSegments | None = None,
        pid: int | None = None,
    ) -> DataDirectory:
        """Lock the directory, creating it if necessary, and read its identity. Raises
        DirectoryError if it belongs to another node or cluster.

        `open_segments` is shared by the directories of one broker. `pid` is shown to the next
        process that finds the lock taken.
        """
        try:
            fs.makedirs(path)
            lock = take_lock(fs, path, pid)
        except LockHeld as error:
            raise DirectoryError(str(error)) from error
        except OSError as error:
            raise DirectoryUnusable(
                f"{path} cannot be used as a data directory ({error.strerror}); check log.dirs and "
                f"its permissions"
            ) from error
        directory = cls(fs, path, lock, new_id)
        if open_segments is not None:
            directory._open_segments = open_segments
        try:
            known = directory._identify(node_id, cluster_id)
            directory._read(known)
        except BaseException:
            fs.close(lock)
            raise
        return directory

    def _identify(self, node_id: int, cluster_id: str | None) -> bool:
        """Check the directory's identity, or give one to a new directory; returns True if it had
        one.
        """
        try:
            meta = read_meta_properties(self._fs, self.path)
        except ValueError as error:
            raise DirectoryError(
                f"{self.path}/{META_NAME} does not read ({error}); put it back from a copy, or "
                f"correct it by hand and remove {META_NAME}{SEAL}, or move the data directory away "
                f"to start with an empty one"
            ) from error
        if meta is None:
            self._meta = MetaProperties(node_id, new_directory_id(self._new_id), cluster_id)
            write_meta_properties(self._fs, self.path, self._meta)
            self.is_new = not self.partitions()
            return False
        if meta.node_id != node_id:
            raise DirectoryError(
                f"{self.path} belongs to node {meta.node_id}, this is node {node_id}; correct "
                f"node.id or log.dirs"
            )
        if cluster_id is not None and meta.cluster_id not in (None, cluster_id):
            raise DirectoryError(self._other_cluster(meta.cluster_id, cluster_id))
        seal_meta_properties(self._fs, self.path)
        self._meta = meta
        if cluster_id is not None:
            self.set_cluster_id(cluster_id)
        return True

    def _other_cluster(self, ours: str | None, theirs: str) -> str:
        return (
            f"{self.path} belongs to cluster {ours}, not to {theirs}; correct log.dirs or "
            f"controller.quorum.bootstrap.servers"
        )

    def _read(self, known: bool) -> None:
        epoch = take_clean_shutdown(self._fs, self.path, self.findings.append)
        try:
            self._memory.read(closed=epoch is not None)
        except ValueError as error:
            known = False
            self.findings.append(
                f"{self.path}/{STATE_NAME} does not read ({error}) and is treated as absent; the "
                f"last shutdown counts as unclean."
            )
        self._were_always = self.state.flush_policy == ALWAYS
        here = self.partitions()
        keys = [(p.topic, p.partition) for p in here]
        vouched_for = self._checkpoints.read(self.findings.append, keys, closed=epoch is not None)
        # Without the old identity or state nothing proves that this is the same directory (P-21).
        if known and epoch is not None and vouched_for:
            self.clean = True
            self.previous_broker_epoch = epoch
        self.update_state(hosts={(p.topic_id, p.partition) for p in here})

    @property
    def node_id(self) -> int:
        return self._meta.node_id

    @property
    def state(self) -> BrokerState:
        """The stored state of its broker."""
        return self._memory.state

    @property
    def directory_id(self) -> str:
        return self._meta.directory_id

    @property
    def cluster_id(self) -> str | None:
        return self._meta.cluster_id

    @property
    def store_id(self) -> str | None:
        """Identity of the controller's store in this directory; None in a broker's directory."""
        return self._meta.store_id

    def set_cluster_id(self, cluster_id: str) -> None:
        """Bind the directory to a cluster, durably. Raises DirectoryError if it belongs to another
        one.
        """
        if self._meta.cluster_id == cluster_id:
            return
        if self._meta.cluster_id is not None:
            raise DirectoryError(self._other_cluster(self._meta.cluster_id, cluster_id))
        self._keep_meta(replace(self._meta, cluster_id=cluster_id))

    def ensure_store_id(self) -> str:
        """The store id, created and stored durably at the first call."""
        if self._meta.store_id is None:
            self._keep_meta(replace(self._meta, store_id=new_directory_id(self._new_id)))
        assert self._meta.store_id is not None
        return self._meta.store_id

    def _keep_meta(self, meta: MetaProperties) -> None:
        write_meta_properties(self._fs, self.path, meta)
        self._meta = meta

    def update_state(self, **changes: Any) -> None:
        """Replace fields of `state`, and host more (`hosts`), durably."""
        self._memory.update(**changes)

    def logs(self) -> Collection[Log]:
        """The logs that are open now; another thread may open or remove one."""
        return tuple(self._logs.values())

    def partitions(self) -> list[PartitionDir]:
        """The partitions' directories in use, by name; other entries are reported in `findings`."""
        return self.partition_dirs.look()

    def _find(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def create_log(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        """Create a new, empty log. Raises KafkaStorageError if the replica was here before and is
        gone (P-20).
        """
        (made,) = self.make_logs([NewLog(topic, topic_id, partition, config)])
        if not isinstance(made, Log):
            raise made
        self.update_state(hosts={(topic_id, partition)})
        self.take_log(made)
        return made

    def make_logs(self, wanted: Iterable[NewLog]) -> list[Log | OSError | KafkaStorageError]:
        """Create empty logs; returns each log, or the reason for its failure.

        They serve nothing before `hosted` contains them. A crash before that leaves interrupted
        creations. A data directory that was taken away is not made again: its logs are lost, and an
        empty one would hide that.
        """
        wanted = list(wanted)
        if not self._fs.isdir(self.path):
            gone = FileNotFoundError(errno.ENOENT, "the data directory is gone", self.path)
            return [gone for _ in wanted]
        made = side_by_side(self._making(new) for new in wanted)
        try:
            self._fs.fsync_dir(self.path)
        except OSError as error:
            return [error for _ in made]
        return made

    def _making(self, new: NewLog) -> Steps[Log]:
        path = f"{self.path}/{new.name}"
        is_hosted = (new.topic_id, new.partition) in self.state.hosted
        if is_stray(self._fs, path, new, self.state.hosted, is_open=new.key in self._logs):
            self._rename(path, "stray")
        if is_hosted:
            raise replica_gone(path, new)
        is_made = not self._fs.exists(path)
        self._fs.makedirs(path)
        limits = CheckpointLimits.load(self._fs, path, self.findings.append, self._limits_from)
        if self._checkpoints.may_name((new.topic, new.partition)):
            limits.add(0)  # before the directory counts as a partition's whose log is lost
        yield
        begun = yield from beginning(self._fs, path, new, is_made=is_made)
        return Log(
            self._fs,
            path,
            topic=new.topic,
            topic_id=new.topic_id,
            partition=new.partition,
            config=new.config,
            expected=Expectations(),
            limits=limits,
            report=self.findings.append,
            open_segments=self._open_segments,
            begun=begun,
        )

    def take_log(self, log: Log) -> None:
        """Record a log from `make_logs` as hosted, so that it counts."""
        self._logs[log.topic, log.partition] = log

    def set_aside(self, unknown: UnknownDir) -> None:
        """Set a directory of unknown identity aside; only the operator removes it (I-87)."""
        self._rename(unknown.path, "stray")
        self.partition_dirs.forget(unknown)
        self._checkpoints.forget((unknown.topic, unknown.partition))

    def load_log(
        self,
        pdir: PartitionDir,
        config: LogConfig,
        report: Report,
        *,
        one_batch_at_a_time: bool = False,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> Log:
        """Open a partition's directory and recover its log (I-7). Raises DamagedLog if it must be
        refused.
        """
        seal_partition_metadata(self._fs, pdir.path)
        limits = CheckpointLimits.load(self._fs, pdir.path, report)
        key = pdir.topic, pdir.partition
        checkpointed = partial(self._checkpoints.offset, key=key, limits=limits)
        log = Log(
            self._fs,
            pdir.path,
            topic=pdir.topic,
            topic_id=pdir.topic_id,
            partition=pdir.partition,
            config=config,
            expected=Expectations(
                recovery_point=checkpointed(RECOVERY_POINTS),
                recovery_point_lost=limits.is_lost
                or self._checkpoints.has_lost(RECOVERY_POINTS, key),
                high_watermark=checkpointed(HIGH_WATERMARKS),
                log_start=checkpointed(LOG_STARTS),
                log_start_known=limits.lowest(LOG_STARTS) is None
                and self._checkpoints.names(LOG_STARTS, key),
                gaps_below=self._checkpoints.gaps_below(key),
                cleaned_to=checkpointed(CLEANED),
                clean=self.clean and not self.partition_dirs.was_identified(pdir.path),
                always=self._were_always,
                flush_failed=has_failed_flush(self._fs, self.path),
                one_batch_at_a_time=one_batch_at_a_time,
            ),
            limits=limits,
            report=report,
            open_segments=self._open_segments,
            on_bytes=on_bytes,
        )
        self._logs[key] = log
        return log

    def delete_log(self, log: Log | PartitionDir) -> None:
        """Rename the directory, so that its name is free at once; `purge_deleted` removes the files
        (P-51).
        """
        self._give_up(log, "delete")

    def mark_stray(self, log: Log | PartitionDir) -> None:
        """Set a log aside that no topic claims; only the operator removes it (I-87)."""
        self._give_up(log, "stray")

    def _give_up(self, log: Log | PartitionDir, suffix: str) -> None:
        # The log leaves `hosted` before its directory moves: after a crash in between, the next
        # start hosts it again.
        self.forget_hosted(log.topic_id, log.partition)
        if isinstance(log, Log):
            log.retire()
            self._limits_from = max(self._limits_from, log.limits.next_number)
        self._rename(log.path, suffix)
        self._logs.pop((log.topic, log.partition), None)
        self._checkpoints.forget((log.topic, log.partition))

    def _rename(self, path: str, suffix: str) -> None:
        ending = f".{self._new_id().hex()}-{suffix}"
        name = path.rpartition("/")[2][: NAME_MAX - len(ending)] + ending
        with contextlib.suppress(FileNotFoundError):  # it was removed before, perhaps not durably
            self._fs.replace(path, f"{self.path}/{name}")
        self._fs.fsync_dir(self.path)

    def forget_hosted(self, topic_id: bytes, partition: int) -> None:
        """Allow `make_logs` to create this replica again: the caller knows that it is in no ISR."""
        self._memory.forget_hosted(topic_id, partition)

    def strays(self) -> list[str]:
        """Paths of the strays from `mark_stray` that still exist; blocking."""
        return find_strays(self._fs, self.path)

    def purge_deleted(self) -> list[str]:
        """Remove the files of deleted logs; blocking. Returns the remaining ones, with reasons."""
        return purge_deleted(self._fs, self.path)

    def write_recovery_points(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Write the offsets up to which each log is durable; other partitions keep their entry
        (P-16).
        """
        self._checkpoints.write(RECOVERY_POINTS, offsets, self._logs)

    def write_high_watermarks(self, offsets: Mapping[Key, int], taken: Taken | None = None) -> None:
        self._checkpoints.write(HIGH_WATERMARKS, offsets, self._logs, taken)

    def write_log_starts(self, offsets: Mapping[Key, int], taken: Taken | None = None) -> None:
        self._checkpoints.write(LOG_STARTS, offsets, self._logs, taken)

    def write_cleaned_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._checkpoints.write(CLEANED, offsets, self._logs)

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        """Write the clean-shutdown marker, last of all, once every open log was flushed and closed
        (I-52).
        """
        if has_failed_flush(self._fs, self.path) and self.partition_dirs.are_among(self._logs):
            forget_failed_flush(self._fs, self.path)  # an unopened log is not flushed (P-24)
        write_clean_shutdown(self._fs, self.path, broker_epoch)

    def close(self) -> None:
        """Release the lock."""
        self._memory.close()
        if self._lock >= 0:
            self._fs.close(self._lock)
            self._lock = -1
