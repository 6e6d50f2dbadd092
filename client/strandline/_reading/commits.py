"""A consumer's calls about the committed offsets of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from strandline._core.commit_state import CommitOffset
from strandline._groups.group import at_of
from strandline._net import arguments as given
from strandline._net.offset_commits import offset_of
from strandline._reading.reading import Partition, Reading, ToCommit
from strandline.group_types import OffsetAndMetadata

if TYPE_CHECKING:
    import asyncio

    from strandline._core.cluster_view import PartitionKey


class Commits(Reading):
    """The calls about committed offsets."""

    async def commit(
        self, offsets: ToCommit | None = None, *, timeout_ms: float | None = None
    ) -> None:
        """Commits these offsets (of the records to read next), or the positions of all assigned
        partitions: every delivered record.

        Committed offsets survive the same failures as acknowledged records. Raises CommitFailed if
        the partitions were reassigned, and OperationTimedOut if the outcome is unknown after
        `timeout_ms` (None: `request_timeout_ms`). Cancelling the call does not cancel the commit.
        """
        await self.commit_async(offsets, timeout_ms=timeout_ms)

    def commit_async(
        self, offsets: ToCommit | None = None, *, timeout_ms: float | None = None
    ) -> asyncio.Future[None]:
        """Starts a commit and returns the future of its outcome.

        Commits of one consumer run one after the other.
        """
        group = self._grouped("commit")
        timeout_s = self._within(timeout_ms)
        if offsets is None:
            chosen = {p.key: at_of(p) for p in self._assigned.of(()) if p.offset >= 0}
        else:
            chosen = dict(
                self._to_commit(tp, at) for tp, at in given.mapping("offsets", offsets).items()
            )
        return group.commits.submit(chosen, timeout_s)

    def _to_commit(
        self, partition: Partition, at: int | tuple[int, str] | OffsetAndMetadata
    ) -> tuple[PartitionKey, CommitOffset]:
        position = self._assigned.position(partition)
        found = offset_of(f"offsets: that of {partition[0]}:{partition[1]}", at)
        epoch = found.leader_epoch
        if epoch < 0:
            # Without an epoch, the next owner would trust a deposed leader (P-82).
            epoch = position.epoch_before(found.offset)
        return position.key, CommitOffset(found.offset, epoch, found.metadata)

    @overload
    async def committed(
        self, partition: Partition, *, timeout_ms: float | None = None
    ) -> int | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: bool, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None: ...

    async def committed(
        self, partition: Partition, *, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Returns the group's committed offset of a partition, from any member; None if none.

        `metadata=True` returns text and leader epoch too.
        """
        group = self._grouped("committed")
        timeout_s = self._within(timeout_ms)
        tp = given.one_partition("partition", partition)
        cluster = self._started().cluster
        view = await cluster.topic(tp.topic, timeout_s, tp.partition)
        key = (view.topic_id, tp.partition)
        found = (await group.commits.fetched([key], timeout_s))[key]
        if found.offset < 0:
            return None
        if not metadata:
            return found.offset
        return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)
