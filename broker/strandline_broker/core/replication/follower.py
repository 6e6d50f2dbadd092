"""A follower's side of one partition in one leader epoch: the next fetch, and the effects of its
answer.

The host builds one `Follower` for each leader epoch, so every epoch begins by reconciling. Each
fetch names the epoch of the last record held, taken from the log itself (P-53). The leader answers
where the histories diverge (I-44, P-12). An answer counts only for the exact position that was
asked for (I-42, P-4). The effects of one answer are carried out in order, without a pause: truncate
and stop; or append, then high watermark, then log start (I-43).

A replica truncates records that it knows to be committed in three cases only:

- An unclean election was announced that its log has not followed yet.
- The leader's log begins beyond its end (I-45).
- An operator has allowed it.

Otherwise leader and replica disagree about what was acknowledged to producers. The replica then
keeps its log and stops fetching (I-41).

`truncate_to_high_watermark` (replica.truncation=high-watermark) is Kafka's method before leader
epochs. It loses acknowledged records and lets replicas differ (P-1). It exists to demonstrate this.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline_broker.core.replication.partition_state import PartitionState
from strandline_broker.core.replication.truncation import (
    EpochHistory,
    follower_high_watermark,
    follower_log_start,
    truncation_target,
)
from strandline_proto.errors import (
    NONE,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    from_code,
)
from strandline_proto.ids import NO_LEADER, UNKNOWN_EPOCH, LeaderEpoch, Offset


class FetchPosition(NamedTuple):
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


class FetchAnswer(NamedTuple):
    error_code: int
    high_watermark: int
    log_start_offset: int
    """The leader's log start. An OFFSET_OUT_OF_RANGE must carry it and the high watermark too."""
    diverging: tuple[int, int] | None = None
    """(epoch, its end in the leader's log), if the follower's history differs from the leader's."""
    has_records: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate the log, its epochs and producer state; lower the high watermark to the new end if
    it is above (I-13).

    This applies even if the log ends at `offset` already: an epoch without records is then dropped
    (I-47).
    """

    offset: Offset
    below_high_watermark: bool = False
    """True if records believed committed are removed without an announced unclean election: an
    operator has allowed it (I-41).
    """
    in_recovery: bool = False
    """True if a leader was elected uncleanly after the removed records were written: they may have
    been committed (I-53).
    """


@dataclass(frozen=True, slots=True)
class TruncateFully:
    """Drop everything and begin an empty log at `start_at`, which becomes the high watermark
    (I-45). `in_recovery` as in TruncateTo.
    """

    start_at: Offset
    in_recovery: bool = False


@dataclass(frozen=True, slots=True)
class RefuseTruncation:
    """Truncate nothing and stop fetching: the log was to end at `offset`, below the high watermark
    (I-41).
    """

    offset: Offset


@dataclass(frozen=True, slots=True)
class Append:
    """Append the answer's records after checking each batch; if that fails, skip the remaining
    effects.
    """


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """Set the high watermark to `follower_high_watermark` of this value and the log's
    current end.
    """

    leader_high_watermark: Offset


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """Set the log start to `follower_log_start` of this value and the current high watermark."""

    to: Offset


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait a little, then fetch again."""

    reason: str


@dataclass(frozen=True, slots=True)
class DropUntilNewEpoch:
    """Stop fetching: this leader epoch has ended, and the push of the next one is under way."""


@dataclass(frozen=True, slots=True)
class IncarnationEnded:
    """End this process, and never register again: a newer process has this broker's id (P-73)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Ignore an answer to another request; fetch from the log's current end."""

    reason: str


Effect = (
    TruncateTo
    | TruncateFully
    | RefuseTruncation
    | Append
    | AdvanceHighWatermark
    | RaiseLogStart
    | Backoff
    | DropUntilNewEpoch
    | IncarnationEnded
    | Discard
)

__all__ = [
    "AdvanceHighWatermark",
    "Append",
    "Backoff",
    "Discard",
    "DropUntilNewEpoch",
    "Effect",
    "EpochHistory",
    "FetchAnswer",
    "FetchPosition",
    "Follower",
    "IncarnationEnded",
    "RaiseLogStart",
    "RefuseTruncation",
    "TruncateFully",
    "TruncateTo",
    "follower_high_watermark",
    "follower_log_start",
]

_OUT_OF_RANGE: Final = OffsetOutOfRange.code


class Follower:
    def __init__(
        self,
        state: PartitionState,
        *,
        truncate_to_high_watermark: bool = False,
        refuses_truncation: bool = False,
    ) -> None:
        """Prepare the machine; with `refuses_truncation` the replica refused a truncation in an
        earlier epoch and was not released since.
        """
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.truncate_to_high_watermark = truncate_to_high_watermark
        self._unclean_epoch = state.unclean_epoch
        self._over = False
        self.refuses_truncation = refuses_truncation
        self.is_answered = False
        """True once the leader has confirmed, in this epoch, that our log is a prefix of
        its own.
        """
        self._may_cut = truncate_to_high_watermark

    @property
    def may_fetch(self) -> bool:
        return self.leader != NO_LEADER and not self._over and not self.refuses_truncation

    def allow_truncation(self) -> None:
        """Continue, and truncate records that this leader does not have, until the histories agree
        once.
        """
        self.refuses_truncation, self._may_cut = False, True

    def on_become_follower(self, *, log_end_offset: Offset, high_watermark: Offset) -> list[Effect]:
        """Return the first effects; called once, before the first fetch of this leader epoch."""
        if self.truncate_to_high_watermark and high_watermark < log_end_offset:
            return [TruncateTo(high_watermark)]
        return []

    def on_state(self, state: PartitionState) -> None:
        """Take a newer state of the same leader epoch. A follower uses only its partition epoch."""
        assert state.leader_epoch == self.leader_epoch, "a newer leader epoch needs a new machine"
        if state.partition_epoch > self.partition_epoch:
            self.partition_epoch = state.partition_epoch

    def next_fetch(self, log_end_offset: Offset, latest_epoch: int) -> FetchPosition:
        """The position of the next fetch. `latest_epoch` is the log's newest, even without records,
        so that it can be dropped (I-47).
        """
        assert self.may_fetch
        epoch = UNKNOWN_EPOCH if self.truncate_to_high_watermark else LeaderEpoch(latest_epoch)
        return FetchPosition(log_end_offset, epoch, self.leader_epoch)

    def on_answer(
        self,
        request: FetchPosition,
        answer: FetchAnswer,
        *,
        log_start_offset: Offset,
        log_end_offset: Offset,
        high_watermark: Offset,
        history: EpochHistory,
    ) -> list[Effect]:
        if not self.may_fetch:
            return [Discard(f"leader epoch {self.leader_epoch} is not fetched from")]
        expected = self.next_fetch(log_end_offset, history.latest())
        if request != expected:
            return [Discard(f"answers {request}, while the log stands at {expected}")]
        self.is_answered |= answer.error_code in (NONE, _OUT_OF_RANGE)
        if answer.error_code == _OUT_OF_RANGE:
            return self._on_out_of_range(answer, log_end_offset, high_watermark, history)
        if answer.error_code != NONE:
            return self._on_error(answer.error_code)
        if answer.diverging is not None:
            return self._on_divergence(
                answer.diverging, log_start_offset, log_end_offset, high_watermark, history
            )
        self._may_cut = self.truncate_to_high_watermark
        effects: list[Effect] = [Append()] if answer.has_records else []
        effects.append(AdvanceHighWatermark(Offset(answer.high_watermark)))
        if answer.log_start_offset > log_start_offset:
            effects.append(RaiseLogStart(Offset(answer.log_start_offset)))
        return effects

    def _on_error(self, code: int) -> list[Effect]:
        error = from_code(code)
        if isinstance(error, FencedLeaderEpoch):
            self._over = True
            return [DropUntilNewEpoch()]
        if isinstance(error, StaleBrokerEpoch):
            self._over = True
            return [IncarnationEnded(str(error))]
        return [Backoff(f"{type(error).__name__}: {error}")]

    def _on_out_of_range(
        self,
        answer: FetchAnswer,
        log_end_offset: Offset,
        high_watermark: Offset,
        history: EpochHistory,
    ) -> list[Effect]:
        """Handle OFFSET_OUT_OF_RANGE (I-45). A leader's log that ends before ours is no reason to
        truncate: epochs decide. A log without epochs holds no record, and restarts where the
        leader's log begins.
        """
        start = Offset(answer.log_start_offset)
        if start > log_end_offset:
            return [TruncateFully(start)]
        if start >= 0 and history.latest() == UNKNOWN_EPOCH:
            return self._parted(start, log_end_offset, high_watermark, history)
        if self.truncate_to_high_watermark and 0 <= answer.high_watermark < log_end_offset:
            return [self._truncate(Offset(answer.high_watermark), high_watermark, history)]
        return [Backoff(f"offset {log_end_offset} is out of the leader's range")]

    def _on_divergence(
        self,
        diverging: tuple[int, int],
        log_start_offset: Offset,
        log_end_offset: Offset,
        high_watermark: Offset,
        history: EpochHistory,
    ) -> list[Effect]:
        """Handle a divergence. The answer's high watermark is ignored: it applies to the leader's
        history, not ours (I-13, P-14).
        """
        epoch, end = diverging
        target = truncation_target(epoch, end, log_end_offset=log_end_offset, history=history)
        if target is None:
            return [Backoff(f"the leader does not know where epoch {history.latest()} ends")]
        if target.offset == log_end_offset and epoch >= history.latest():
            return [Backoff(f"the leader's epoch {epoch} ends at {end}, which parts with nothing")]
        return self._parted(target.offset, log_start_offset, high_watermark, history)

    def _parted(
        self,
        offset: Offset,
        log_start_offset: Offset,
        high_watermark: Offset,
        history: EpochHistory,
    ) -> list[Effect]:
        """Truncate or refuse, given that the leader's log equals ours up to `offset` (I-41)."""
        in_recovery = self._parted_uncleanly(history)
        if offset < high_watermark and not (in_recovery or self._may_cut):
            self.refuses_truncation = True
            return [RefuseTruncation(offset)]
        if offset < log_start_offset:
            return [TruncateFully(offset, in_recovery=in_recovery)]
        return [self._truncate(offset, high_watermark, history)]

    def _truncate(
        self, offset: Offset, high_watermark: Offset, history: EpochHistory
    ) -> TruncateTo:
        in_recovery = self._parted_uncleanly(history)
        alarming = offset < high_watermark and not in_recovery
        return TruncateTo(offset, alarming, in_recovery=in_recovery)

    def _parted_uncleanly(self, history: EpochHistory) -> bool:
        """True if this log has not yet followed the history of the last unclean election."""
        return history.latest() < self._unclean_epoch
