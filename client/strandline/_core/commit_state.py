"""The commits of a consumer: offsets of the auto-commit, and retries.

The auto-commit covers the records delivered before the last poll, never more: the records of the
last poll may still be in work (P-113).

A commit without an answer, or with a retriable error, is repeated. No newer commit is under way
meanwhile, so a repetition never moves an offset back. A commit that is refused because the member's
epoch has changed is repeated under the new epoch, for the partitions that the member still owns.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_proto import errors as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey

COMMITS_MAX: Final = 1000
"""Largest number of waiting commits."""

GONE: Final = -1000
"""A code of the library, not of a broker: the member does not own the partition."""

_STALE: Final = frozenset({wire.StaleMemberEpoch.code, wire.RebalanceInProgress.code})
_LOST: Final = frozenset(
    {wire.UnknownMemberId.code, wire.FencedMemberEpoch.code, wire.IllegalGeneration.code}
)
_OPEN: Final = frozenset({wire.NotCoordinator.code, wire.RequestTimedOut.code})
"""Codes of a deposed coordinator, which does not know the outcome of its own write."""


class CommitOffset(NamedTuple):
    """The next offset to read, the leader epoch of the record before it, and a text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Fate(enum.Enum):
    """The consequence of an error code for a commit."""

    AGAIN = "again"
    """The outcome is unknown or the error is retriable: the same commit is repeated."""
    STALE = "stale"
    """The commit is repeated under the member's new epoch, for the partitions it still owns."""
    LOST = "lost"
    """The consumer is no member any more."""
    REFUSED = "refused"


def fate(code: int, *, retriable: bool) -> Fate:
    """The fate of a commit that got this error code."""
    if code in _STALE:
        return Fate.STALE
    if code in _LOST:
        return Fate.LOST
    return Fate.AGAIN if retriable else Fate.REFUSED


@dataclass(eq=False)
class Commit:
    """One commit under way."""

    offsets: dict[PartitionKey, CommitOffset]
    """Offsets without an outcome yet."""
    deadline_ms: float
    by_itself: bool = False
    """True for an auto-commit."""
    is_of_member: bool = False
    """True for the commit of a member, which commits only partitions that it owns."""
    committed: dict[PartitionKey, CommitOffset] = field(default_factory=dict)
    refused: dict[PartitionKey, tuple[int, str]] = field(default_factory=dict)
    """Partitions that failed for good: error code and message."""
    obstacle: tuple[int, str] | None = None
    """Error code and message of the last answer, if it was a refusal."""
    in_doubt: bool = False
    """True if an earlier try has no clear outcome: it may still be carried out."""

    @property
    def is_settled(self) -> bool:
        return not self.offsets

    def refuse(self, keys: Iterable[PartitionKey], code: int, message: str) -> None:
        for key in list(keys):
            if self.offsets.pop(key, None) is not None:
                self.refused[key] = code, message


class CommitState:
    """The commits of one consumer, one at a time, and the positions that it has delivered."""

    def __init__(self) -> None:
        self.current: Commit | None = None
        self._waiting: deque[Commit] = deque()
        self._processed: dict[PartitionKey, CommitOffset] = {}
        """Positions delivered before the last poll."""
        self._committed: dict[PartitionKey, CommitOffset] = {}

    # Delivered positions.

    def on_poll(self, positions: Mapping[PartitionKey, CommitOffset]) -> None:
        """Marks the positions that have moved since the last poll as processed."""
        self._processed |= positions

    def on_sought(self, key: PartitionKey) -> None:
        """Drops the processed position of a partition that the application has moved."""
        self._processed.pop(key, None)

    def on_committed_elsewhere(self, key: PartitionKey, offset: CommitOffset) -> None:
        """Notes the group's committed offset of a newly assigned partition."""
        self._committed[key] = offset
        self._processed.pop(key, None)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Forgets partitions that the consumer has lost, and refuses their unsettled offsets.

        If they come back, the application begins at the offset committed by then (I-106).
        """
        gone = list(keys)
        for key in gone:
            self._processed.pop(key, None)
            self._committed.pop(key, None)
        for commit in self._unsettled:
            commit.refuse(gone, GONE, "")
        if self.current is not None and self.current.refused:
            self.current.in_doubt = True  # a try may be under way

    def on_deleted(self, topic_id: bytes) -> None:
        """Refuses the commits of a deleted topic: no coordinator will carry them out."""
        for known in (self._processed, self._committed):
            for key in [key for key in known if key[0] == topic_id]:
                del known[key]
        for commit in self._unsettled:
            self.refuse_deleted(commit, {topic_id})

    @staticmethod
    def refuse_deleted(commit: Commit, topic_ids: Collection[bytes]) -> None:
        gone = [key for key in commit.offsets if key[0] in topic_ids]
        commit.refuse(gone, wire.UnknownTopicId.code, "the topic was deleted")

    def due(self, keys: Collection[PartitionKey] | None = None) -> dict[PartitionKey, CommitOffset]:
        """The offsets to auto-commit now, of all or of these partitions."""
        # The result of an unsettled commit is unknown, so its partitions stay due.
        open_keys = {key for commit in self._unsettled for key in commit.offsets}
        return {
            key: at
            for key, at in self._processed.items()
            if (keys is None or key in keys)
            and at.offset >= 0
            and (key in open_keys or not self._is_committed(key, at))
        }

    def _is_committed(self, key: PartitionKey, at: CommitOffset) -> bool:
        known = self._committed.get(key)
        return known is not None and known.offset == at.offset

    # One commit at a time.

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= COMMITS_MAX

    @property
    def commits_by_itself(self) -> bool:
        """True if an auto-commit waits or is under way."""
        return any(commit.by_itself for commit in self._unsettled)

    @property
    def _unsettled(self) -> list[Commit]:
        return [*([] if self.current is None else [self.current]), *self._waiting]

    def add(self, commit: Commit) -> None:
        """Queues a commit.

        A commit of the application is newer than the positions delivered before the last poll, and
        replaces their auto-commit.
        """
        self._waiting.append(commit)
        if not commit.by_itself:
            for key in commit.offsets:
                self._processed.pop(key, None)

    def next(self) -> Commit | None:
        """Returns the commit to carry out now: the one under way until it is settled (I-106)."""
        if self.current is None and self._waiting:
            self.current = self._waiting.popleft()
        return self.current

    def settle(self, commit: Commit) -> None:
        """Ends the current commit, with any outcome."""
        assert self.current is commit, commit
        self.current = None
        for key in [*commit.offsets, *commit.refused]:
            self._committed.pop(key, None)  # it may be carried out yet

    def drain(self) -> list[Commit]:
        """Returns and drops all unsettled commits."""
        left = self._unsettled
        self.current = None
        self._waiting.clear()
        return left

    # Answers.

    def on_answer(
        self,
        commit: Commit,
        results: Mapping[PartitionKey, tuple[int, str]],
        whole: tuple[int, str],
        *,
        retriable: Callable[[int], bool],
        owned: Collection[PartitionKey] | None,
    ) -> Fate | None:
        """Applies an answer: an error of the whole, or one code for each partition.

        Returns the worst fate among the offsets to repeat; None if none is left. `owned` has the
        partitions of the member; None for a consumer that is not a member.
        """
        left: Fate | None = None
        for key in list(commit.offsets):
            code, message = whole if whole[0] != wire.NONE else results.get(key, (None, ""))
            if code == wire.NONE:
                commit.committed[key] = self._committed[key] = commit.offsets.pop(key)
                continue
            if code is None:  # an answer without the partition has no outcome for it
                left = left or Fate.AGAIN
                continue
            commit.obstacle = code, message
            what = fate(code, retriable=retriable(code))
            if what is Fate.STALE and owned is not None and key in owned:
                left = Fate.STALE
            elif what is Fate.AGAIN:
                commit.in_doubt = commit.in_doubt or code in _OPEN
                left = left or Fate.AGAIN
            else:
                commit.refuse([key], code, message)
        return left
