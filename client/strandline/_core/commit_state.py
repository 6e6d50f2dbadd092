"""Which offsets a consumer may commit by itself, and what becomes of a commit.

By itself it commits what the application had been handed before its last poll, never more: what the
last poll returned may still be in work (P-113). A commit that got no answer, or was refused for a
reason that passes, is repeated; nothing newer is under way meanwhile, so a repeated one never takes
an offset back. One that was refused because the member's epoch has moved on is repeated under the
new epoch for what the member still owns.
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
"""Commits that wait for their turn, at most."""

GONE: Final = -1000
"""No broker's code: the member knew by itself that the partition is not its own."""

_STALE: Final = frozenset({wire.StaleMemberEpoch.code, wire.RebalanceInProgress.code})
_LOST: Final = frozenset(
    {wire.UnknownMemberId.code, wire.FencedMemberEpoch.code, wire.IllegalGeneration.code}
)
_OPEN: Final = frozenset({wire.NotCoordinator.code, wire.RequestTimedOut.code})
"""A coordinator that has been deposed does not know what becomes of what it has written."""


class CommitOffset(NamedTuple):
    """The next offset to read, the leader epoch of the record before it, and a text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Fate(enum.Enum):
    """What an error code means for a commit."""

    AGAIN = "again"
    """Nobody knows, or not now: the same is repeated."""
    STALE = "stale"
    """Repeated under the member's new epoch, for what it still owns."""
    LOST = "lost"
    """The committer is no member any more."""
    REFUSED = "refused"


def fate(code: int, *, retriable: bool) -> Fate:
    if code in _STALE:
        return Fate.STALE
    if code in _LOST:
        return Fate.LOST
    return Fate.AGAIN if retriable else Fate.REFUSED


@dataclass(eq=False)
class Commit:
    """One commit on its way."""

    offsets: dict[PartitionKey, CommitOffset]
    """What is not settled yet."""
    deadline_ms: float
    by_itself: bool = False
    """Of the library's own accord."""
    is_of_member: bool = False
    """Asked for by a member, which commits what it owns."""
    committed: dict[PartitionKey, CommitOffset] = field(default_factory=dict)
    refused: dict[PartitionKey, tuple[int, str]] = field(default_factory=dict)
    """Partitions that failed for good: error code and message."""
    obstacle: tuple[int, str] | None = None
    """What last stood in the way, if it was an answer."""
    in_doubt: bool = False
    """An earlier try has got no answer, or one that leaves it open: it may be carried out yet."""

    @property
    def is_settled(self) -> bool:
        return not self.offsets

    def refuse(self, keys: Iterable[PartitionKey], code: int, message: str) -> None:
        for key in list(keys):
            if self.offsets.pop(key, None) is not None:
                self.refused[key] = code, message


class CommitState:
    """Commits of one consumer, one at a time, and what it has handed over."""

    def __init__(self) -> None:
        self.current: Commit | None = None
        self._waiting: deque[Commit] = deque()
        self._processed: dict[PartitionKey, CommitOffset] = {}
        """Handed over before the last poll."""
        self._committed: dict[PartitionKey, CommitOffset] = {}

    # What has been handed over.

    def on_poll(self, positions: Mapping[PartitionKey, CommitOffset]) -> None:
        """The application polls, and is done with what it was handed: these are the positions that
        have moved since its last poll.
        """
        self._processed |= positions

    def on_sought(self, key: PartitionKey) -> None:
        """The application has moved a position: what it was handed before counts no more."""
        self._processed.pop(key, None)

    def on_committed_elsewhere(self, key: PartitionKey, offset: CommitOffset) -> None:
        """What the group had committed when the partition was taken up."""
        self._committed[key] = offset
        self._processed.pop(key, None)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """No longer this consumer's, and what is not settled of them never will be: once they are
        its own again, the application begins at what the group has committed by then (I-106).
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
        """Metadata says that the topic is gone: no coordinator will ever commit anything of it."""
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
        """What the consumer may commit by itself now, of all or of these partitions."""
        # Where a commit is not settled, nobody knows what it leaves.
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
        """Whether a commit of the library's own is waiting or under way."""
        return any(commit.by_itself for commit in self._unsettled)

    @property
    def _unsettled(self) -> list[Commit]:
        return [*([] if self.current is None else [self.current]), *self._waiting]

    def add(self, commit: Commit) -> None:
        """Have a commit wait for its turn. One that the application asks for is newer than what was
        handed over before the last poll, which the consumer then does not commit any more.
        """
        self._waiting.append(commit)
        if not commit.by_itself:
            for key in commit.offsets:
                self._processed.pop(key, None)

    def next(self) -> Commit | None:
        """The commit to carry out now; the one under way until it is settled (I-106)."""
        if self.current is None and self._waiting:
            self.current = self._waiting.popleft()
        return self.current

    def settle(self, commit: Commit) -> None:
        """It is over, whatever became of it."""
        assert self.current is commit, commit
        self.current = None
        for key in [*commit.offsets, *commit.refused]:
            self._committed.pop(key, None)  # it may be carried out yet

    def drain(self) -> list[Commit]:
        """Everything that is not settled; nothing of it is carried on."""
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
        """Take in an answer: an error of the whole, or one code for each partition.

        Returns the worst that is left to be repeated, None if nothing is. `owned` is what the
        member owns; None for a consumer that is not a member.
        """
        left: Fate | None = None
        for key in list(commit.offsets):
            code, message = whole if whole[0] != wire.NONE else results.get(key, (None, ""))
            if code == wire.NONE:
                commit.committed[key] = self._committed[key] = commit.offsets.pop(key)
                continue
            if code is None:  # an answer that leaves a partition out says nothing of it
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
