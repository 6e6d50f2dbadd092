"""All data directories of one broker (`log.dirs`): opened together, checked against each other.

Each is a `DataDirectory` with its own lock, identity, checkpoints and clean-shutdown marker. Facts
about the whole broker are stored so that the loss of one directory does not lose them:

- The broker's identity to the controller, which is the id of its first directory: all directories
  store it.
- Every replica that the broker ever hosted, in any directory: all directories store it. A replica
  whose directory is gone, or not mounted, is therefore not treated as new (P-20).
- The last controller record that the broker obeyed (P-76): the first directory in service stores
  it.

A directory that cannot be read is out of service, and the others continue (KIP-112). Directories
that contradict each other stop the start: the operator must decide whose records count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strandline_broker.storage.directory.clean_shutdown import NO_EPOCH
from strandline_broker.storage.directory.directory import (
    DataDirectory,
    DirectoryError,
    DirectoryUnusable,
)
from strandline_broker.storage.directory.partition_identity import identify_by_seals
from strandline_broker.storage.segment.open_segments import OPEN_MAX, OpenSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence, Set

    from strandline_broker.storage.directory.partition_dirs import PartitionDir, UnknownDir
    from strandline_broker.storage.directory.strandline_state import BrokerState
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import FileSystem

Key = tuple[bytes, int]


class BrokerDirectories:
    def __init__(self, online: Sequence[DataDirectory], failed: dict[str, str]) -> None:
        """Use `open` to create one."""
        self.online = list(online)
        """The directories in service; a host removes one that fails."""
        self.failed = failed
        """The reason of each directory out of service, by path."""
        self.full: set[str] = set()
        """Paths of the directories that refused a write for lack of room, and still have none."""
        self.lacks_descriptors = False
        """True if a log refused a request because no more files could be opened; see
        `hosts.descriptors`.
        """
        self.directory_id = _identity(self.online)
        self.hosted: set[Key] = set().union(*(d.state.hosted for d in self.online))

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        paths: Sequence[str],
        *,
        node_id: int,
        cluster_id: str | None,
        new_id: Callable[[], bytes],
        sealed_max: int = OPEN_MAX,
    ) -> BrokerDirectories:
        """Open all directories. Raises DirectoryError if one belongs to another node or cluster, if
        they contradict each other, or if none is usable.
        """
        online: list[DataDirectory] = []
        failed: dict[str, str] = {}
        open_segments = OpenSegments(sealed_max)
        try:
            for path in paths:
                try:
                    online.append(
                        DataDirectory.open(
                            fs,
                            path,
                            node_id=node_id,
                            cluster_id=cluster_id,
                            new_id=new_id,
                            open_segments=open_segments,
                        )
                    )
                except (DirectoryUnusable, OSError) as error:
                    failed[path] = str(error)
            if not online:
                raise DirectoryError("; ".join(failed.values()))
            _check_clusters(online)
            if len(online) > 1:
                _check_replicas(online)
            directories = cls(online, failed)
            directories._share()
            identify_by_seals(directories.online, directories.hosted)
        except BaseException:
            for directory in online:
                directory.close()
            raise
        return directories

    def _share(self) -> None:
        cluster_id = self.cluster_id
        for directory in list(self.online):
            try:
                if cluster_id is not None:
                    directory.set_cluster_id(cluster_id)
                directory.update_state(identity=self.directory_id, hosts=self.hosted)
            except OSError as error:
                if len(self.online) == 1:
                    raise
                self.take_out(directory, str(error))
                directory.close()

    @property
    def findings(self) -> list[str]:
        """Anomalies found at opening, in whole sentences, for the host to log."""
        return [finding for directory in self.online for finding in directory.findings]

    @property
    def cluster_id(self) -> str | None:
        return next((d.cluster_id for d in self.online if d.cluster_id is not None), None)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Bind every directory to a cluster, durably."""
        for directory in self.online:
            directory.set_cluster_id(cluster_id)

    @property
    def previous_broker_epoch(self) -> int:
        """Broker epoch of the incarnation that closed every directory cleanly; -1 if there is none
        (I-51).
        """
        epochs = {d.previous_broker_epoch for d in self.online if not d.is_new}
        return NO_EPOCH if self.failed or len(epochs) != 1 else epochs.pop()

    @property
    def state(self) -> BrokerState:
        """The broker's stored state, with the newest controller record of all directories."""
        newest = max(
            (d.state for d in self.online), key=lambda s: (s.controller_epoch, s.metadata_offset)
        )
        return replace(newest, hosted=self.hosted)

    def update_state(self, **changes: Any) -> None:
        """Replace fields of `state` in the first directory in service, durably; the flush policy is
        replaced in all directories.
        """
        everywhere = {name: changes.pop(name) for name in ("flush_policy",) if name in changes}
        if changes:
            self.online[0].update_state(**changes)
        if everywhere:
            for directory in self.online:
                directory.update_state(**everywhere)

    def keep_logs(self, made: Collection[tuple[DataDirectory, Log]]) -> None:
        """Record logs from `DataDirectory.make_logs` as hosted, all with one write; they count from
        then on (P-20).
        """
        self.keep_hosted({(log.topic_id, log.partition) for _, log in made})
        for directory, log in made:
            directory.take_log(log)

    def delete_log(self, directory: DataDirectory, log: Log | PartitionDir) -> None:
        """Delete a log. It is renamed only after all directories have forgotten it, so that a
        failure can be retried.
        """
        self.forget_hosted(log.topic_id, log.partition)
        directory.delete_log(log)

    def mark_stray(self, directory: DataDirectory, log: Log | PartitionDir) -> None:
        """Set a log aside that no topic claims. All directories forget it first, as in
        `delete_log`.
        """
        self.forget_hosted(log.topic_id, log.partition)
        directory.mark_stray(log)

    def unknown(self) -> list[tuple[DataDirectory, UnknownDir]]:
        """Partitions' directories whose topic is unknown."""
        return [(d, each) for d in self.online for each in d.partition_dirs.unknown]

    def forget_hosted(self, topic_id: bytes, partition: int) -> None:
        """Allow `make_logs` to create this replica again: the caller knows that it is in no ISR."""
        for directory in self.online:
            directory.forget_hosted(topic_id, partition)
        self.hosted.discard((topic_id, partition))

    def keep_hosted(self, more: Set[Key]) -> None:
        for directory in self.online:
            directory.update_state(hosts=more)
        self.hosted |= more

    def take_out(self, directory: DataDirectory, why: str) -> None:
        """Take a failed directory out of service; nothing is written there any more."""
        # Another thread may be iterating over the old list.
        self.online = [each for each in self.online if each is not directory]
        self.failed[directory.path] = why

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        """Write the clean-shutdown marker. It is a broker's last write, once every log was flushed
        and closed without an error (I-52).
        """
        for directory in self.online:
            directory.write_clean_shutdown(broker_epoch)

    def close(self) -> None:
        for directory in self.online:
            directory.close()


def _identity(directories: Sequence[DataDirectory]) -> str:
    known = {d.state.identity: d.path for d in directories if d.state.identity}
    if len(known) > 1:
        (one, first), (other, second) = list(known.items())[:2]
        raise DirectoryError(
            f"{first} and {second} belong to two brokers (of directory ids {one} and {other}); "
            f"correct log.dirs"
        )
    for identity in known:
        return identity
    used = [d for d in directories if not d.is_new]
    return (used or directories)[0].directory_id


def _check_clusters(directories: Sequence[DataDirectory]) -> None:
    clusters = {d.cluster_id: d.path for d in directories if d.cluster_id is not None}
    if len(clusters) > 1:
        shown = ", ".join(f"{path} to {cluster}" for cluster, path in clusters.items())
        raise DirectoryError(
            f"the directories belong to different clusters: {shown}; correct log.dirs"
        )


def _check_replicas(directories: Sequence[DataDirectory]) -> None:
    where: dict[Key, str] = {}
    for directory in directories:
        for found in directory.partitions():
            first = where.setdefault((found.topic_id, found.partition), found.path)
            if first != found.path:
                raise DirectoryError(
                    f"{first} and {found.path} hold the same replica; move the older one away: the "
                    f"one whose newest file is older"
                )
