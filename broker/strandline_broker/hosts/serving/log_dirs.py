"""DescribeLogDirs: the data directories of this broker, and the replicas in each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.serving.turns import in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from strandline_broker.hosts.disks.log_dirs import LogDir
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_runtime.runtime import FileSystem

UNKNOWN_BYTES: Final = -1
SPACE_LIMIT_S: Final = 2.0
"""Time that a disk has to report its space; it may be busy, or hang."""


class ReplicaOnDisk(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    lag: int
    """Offsets below the high watermark that the replica does not have."""


@dataclass(slots=True)
class DescribedDir:
    path: str
    failure: str | None = None
    """The reason why the directory is out of service."""
    total_bytes: int = UNKNOWN_BYTES
    """Size of the directory's file system."""
    usable_bytes: int = UNKNOWN_BYTES
    replicas: list[ReplicaOnDisk] = field(default_factory=list)


class LogDirsService:
    def __init__(self, fs: FileSystem, replicas: ReplicaManager) -> None:
        self._fs = fs
        self._replicas = replicas

    @property
    def broker_id(self) -> int:
        """Id of this broker."""
        return self._replicas.me

    async def describe(self, wanted: Mapping[str, Set[int]] | None) -> list[DescribedDir]:
        """Returns every directory. `wanted`: the partitions to name, by topic; None: all."""
        dirs = self._replicas.dirs
        found = {each.path: DescribedDir(each.path) for each in dirs.online()}
        async for partition in in_turns(list(self._replicas.partitions.values())):
            log = partition.log
            described = found.get(dirs.of(log).path)
            if described is None or not _is_wanted(wanted, log.topic, log.partition):
                continue
            lag = max(partition.high_watermark - log.log_end_offset, 0)
            described.replicas.append(ReplicaOnDisk(log.topic, log.partition, log.size_bytes, lag))
        for each in dirs.online():
            await self._add_space(each, found[each.path])
        for path, why in dirs.directories.failed.items():
            found[path] = DescribedDir(path, failure=why)
        return list(found.values())

    async def _add_space(self, log_dir: LogDir, described: DescribedDir) -> None:
        loop = asyncio.get_running_loop()

        def space() -> tuple[int, int]:
            return self._fs.total_space(log_dir.path), self._fs.free_space(log_dir.path)

        try:
            async with asyncio.timeout(SPACE_LIMIT_S):
                total, usable = await loop.run_in_executor(log_dir.disk, space)
        except (OSError, TimeoutError):
            return
        described.total_bytes, described.usable_bytes = total, usable


def _is_wanted(wanted: Mapping[str, Set[int]] | None, topic: str, partition: int) -> bool:
    return wanted is None or partition in wanted.get(topic, ())
