"""A member's side of the consumer protocol (KIP-848): its state and its next heartbeat.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> ACKNOWLEDGING -> STABLE
    any of a member's states -> FENCED -> JOINING       unknown to the coordinator
    any of a member's states -> STALE -> JOINING        no poll for max.poll.interval.ms
    any of a member's states -> LEAVING -> UNSUBSCRIBED
    any of a member's states -> FATAL                   permanent error

Heartbeats travel on streams. Each stream is one generation. Its first heartbeat has all fields, the
others only changes. An answer of an older generation is stale, and is dropped (I-177). `seen_push`
is the last push that the member has applied. With it, the coordinator tells an acknowledgement from
a message that crossed its grant (I-134).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._core.reconciling import Reconciling
from strandline_proto import errors as wire

if TYPE_CHECKING:
    from strandline._core.cluster_view import PartitionKey

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""Epoch in the leave of a static member, whose partitions are kept for its session."""
INTERVAL_MS: Final = 5000.0
"""Heartbeat interval until the coordinator sets one."""
SILENT_INTERVALS: Final = 2.0
"""Silent heartbeat intervals after which the coordinator counts as gone (P-152)."""
HELD_SLACK_MS: Final = 3000.0
"""Margin beyond a session, after which a dead process's session has ended at its coordinator."""

_LOST: Final = frozenset(
    {
        wire.UnknownMemberId.code,
        wire.FencedMemberEpoch.code,
        wire.IllegalGeneration.code,
    }
)


class State(enum.Enum):
    """The states of a member."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """Partitions must be given up before the assignment can be acknowledged."""
    ACKNOWLEDGING = "acknowledging"
    """The next heartbeat acknowledges the assignment."""
    STABLE = "stable"
    FENCED = "fenced"
    """The coordinator does not know the member, which joins again as soon as it can."""
    LEAVING = "leaving"
    STALE = "stale"
    """The member has left for want of polls, until the next poll."""
    FATAL = "fatal"


_MEMBER: Final = frozenset(
    {State.JOINING, State.RECONCILING, State.ACKNOWLEDGING, State.STABLE, State.FENCED}
)


class Subscription(NamedTuple):
    """Names of topics, or a regular expression that the coordinator matches."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class Beat(NamedTuple):
    """A heartbeat to send; None stands for what has not changed."""

    generation: int
    seq: int
    seen_push: int
    epoch: int
    full: bool
    """True for the first heartbeat of a stream, with timeouts and assignor."""
    subscription: Subscription | None
    clears_pattern: bool
    """True if an earlier subscription had a regular expression, and this one has none."""
    owned: frozenset[PartitionKey] | None


class Heard(enum.Enum):
    """The meaning of an answer."""

    DROPPED = "dropped"
    """The answer belongs to another stream, or to a membership that has ended."""
    FINE = "fine"
    RETRY = "retry"
    """The error is retriable: the stream must be opened again, perhaps at another broker."""
    LOST = "lost"
    """The membership has ended, and the member joins again."""
    FATAL = "fatal"


class Membership:
    """State of one consumer in its group."""

    def __init__(self, *, static: bool) -> None:
        self.state = State.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self.subscription: Subscription | None = None
        self.reconciling = Reconciling()
        self.interval_ms = INTERVAL_MS
        self.generation = 0
        """Generation of the open stream, or of the last one."""
        self.has_left = True
        """True in LEAVING or STALE if the coordinator knows of the leave, or need not know."""
        self.session_ms = 0.0
        """The group's session timeout, once a static member has had to ask for it."""
        self._held_since_ms: float | None = None
        """Time of the first refusal because another member has the instance id."""
        self._static = static
        self._seq = 0
        self._seen_push = 0
        self._first = True
        self._subscription_due = False
        self._had_pattern = False
        self._acknowledgement_due = False
        self._leave_said = False
        """True if the leave was sent on the open stream."""
        self._is_known = False
        """True if the coordinator may know the member."""
        self._beat_at_ms = 0.0
        self._heard_at_ms = 0.0

    @property
    def is_member(self) -> bool:
        """True if the consumer is in the group, or joins it."""
        return self.state in _MEMBER

    @property
    def wants_stream(self) -> bool:
        return self.is_member or not self.has_left

    # The application.

    def subscribe(self, subscription: Subscription) -> bool:
        """Joins with this subscription, or replaces the earlier one.

        Returns True if the member joins, for which it needs a new stream.
        """
        joins = self.state in (State.UNSUBSCRIBED, State.LEAVING)
        if joins:
            self._join()
        changed = subscription != self.subscription
        self._had_pattern = self._had_pattern or subscription.pattern is not None
        self.subscription = subscription
        self._subscription_due = self._subscription_due or changed
        return joins

    def leave(self) -> None:
        """Leaves the group for the application, after the revocation of all partitions."""
        was_member = self.is_member
        self.reconciling.on_membership_lost()
        self.subscription = None
        if self.state is State.FATAL or (self.state is State.STALE and self.has_left):
            self.state = State.UNSUBSCRIBED
        elif was_member or self.state is State.STALE:
            self._go(State.LEAVING)

    def on_poll_overdue(self) -> None:
        """Leaves the group because the application has not polled for too long."""
        if not self.is_member:
            return
        self.reconciling.on_membership_lost()
        self._go(State.STALE)

    def on_poll(self) -> bool:
        """Notes a poll. Returns True if the member joins again, and needs a new stream."""
        if self.state is not State.STALE:
            return False
        self._join()
        return True

    def _join(self) -> None:
        self.state = State.JOINING
        self.epoch = JOIN_EPOCH
        self.has_left = False
        self._first = True

    def _go(self, state: State) -> None:
        self.state = state
        self.has_left = self._leave_said = False
        if not self._is_known:
            self.on_left()

    def on_left(self) -> None:
        """Ends a leave: the coordinator knows, or will notice by the session timeout."""
        self.has_left = True
        self._is_known = False
        self._held_since_ms = None
        self.epoch = JOIN_EPOCH
        if self.state is State.LEAVING:
            self.state = State.UNSUBSCRIBED

    def on_fatal(self) -> None:
        self.reconciling.on_membership_lost()
        self.state = State.FATAL
        self.has_left = True

    def on_given_up(self) -> None:
        """Notes the end of a step of the reconciliation."""
        if self.state is State.RECONCILING and self.reconciling.is_given_up:
            self._acknowledge()

    def _acknowledge(self) -> None:
        self.state = State.ACKNOWLEDGING
        self._acknowledgement_due = True

    # Streams and heartbeats.

    def on_stream_opened(self, now_ms: float) -> int:
        """Begins a stream; returns the generation that all its messages carry."""
        self.generation += 1
        self._seq = self._seen_push = 0
        self._first = True
        self._leave_said = False
        self._heard_at_ms = now_ms
        if self.state is State.FENCED:
            self._join()
        return self.generation

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    @property
    def seen_push(self) -> int:
        return self._seen_push

    @property
    def _is_to_leave(self) -> bool:
        return not self.has_left and self.state in (State.LEAVING, State.STALE)

    def next_beat_ms(self) -> float:
        """Time of the next heartbeat; now if there are changes."""
        if self._is_to_leave:
            return float("inf") if self._leave_said else 0.0
        if self.epoch == JOIN_EPOCH and not self._first:
            return float("inf")  # the join has all fields; nothing follows until its answer
        news = self._first or self._subscription_due or self._acknowledgement_due
        return 0.0 if news else self._beat_at_ms

    def next_beat(self, now_ms: float) -> Beat | None:
        """The heartbeat to send now."""
        if not self.wants_stream or now_ms < self.next_beat_ms():
            return None
        epoch, full = self.epoch, self._first
        subscription: Subscription | None = None
        owned: frozenset[PartitionKey] | None = None
        if self._is_to_leave:
            epoch = LEAVE_STATIC_EPOCH if self._static else LEAVE_EPOCH
            self._leave_said, full = True, False
        else:
            if full or self._subscription_due:
                subscription = self.subscription
            if full or self._acknowledgement_due:
                owned = self.reconciling.owned
        if self.state is State.ACKNOWLEDGING:
            self.state = State.STABLE
        self._is_known = True
        self._first = self._subscription_due = self._acknowledgement_due = False
        self._beat_at_ms = now_ms + self.interval_ms
        return Beat(
            self.generation,
            self.next_seq(),
            self._seen_push,
            epoch,
            full,
            subscription,
            subscription is not None and subscription.pattern is None and self._had_pattern,
            owned,
        )

    def silent_at_ms(self) -> float:
        """Time at which a silent stream is given up."""
        return self._heard_at_ms + SILENT_INTERVALS * self.interval_ms

    def on_heard(self, generation: int, now_ms: float) -> bool:
        """Notes a message. Returns False for one of an older stream, which is ignored."""
        if generation != self.generation:
            return False
        self._heard_at_ms = now_ms
        return True

    # Answers.

    def _is_of_before(self, generation: int) -> bool:
        """True if it answers an earlier stream, or an earlier membership (P-124)."""
        return generation != self.generation or (self._first and self.state is State.JOINING)

    def on_answer(
        self,
        generation: int,
        push: int,
        *,
        epoch: int,
        interval_ms: int,
        assignment: frozenset[PartitionKey] | None,
    ) -> Heard:
        """Applies the coordinator's answer or push."""
        if self._is_of_before(generation):
            return Heard.DROPPED
        if self._is_to_leave:
            if epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                self.on_left()
            return Heard.DROPPED
        if not self.is_member or self.state is State.FENCED:
            return Heard.DROPPED
        self._seen_push = max(self._seen_push, push)
        self.epoch = epoch
        self._held_since_ms = None
        if interval_ms > 0:
            self.interval_ms = float(interval_ms)
        if assignment is not None:
            self.reconciling.on_granted(assignment)
            if self.reconciling.is_given_up:
                self._acknowledge()
            else:
                self.state = State.RECONCILING
                self._acknowledgement_due = False
        elif self.state is State.JOINING:
            self.state = State.STABLE
        return Heard.FINE

    @property
    def is_joining(self) -> bool:
        return self.state is State.JOINING

    def on_error(
        self, generation: int, code: int, *, retriable: bool, now_ms: float = 0.0
    ) -> Heard:
        """The coordinator refused a heartbeat."""
        if self._is_of_before(generation):
            return Heard.DROPPED
        if self._is_to_leave:
            if not retriable:
                self.on_left()  # the member counts as out, for any error
            return Heard.RETRY if retriable else Heard.DROPPED
        if not self.is_member:
            return Heard.DROPPED
        # A deleted group has no members either.
        forgotten = code == wire.GroupIdNotFound.code and self.epoch != JOIN_EPOCH
        if code in _LOST or forgotten:
            self.on_member_lost()
            return Heard.LOST
        if retriable:
            self._held_since_ms = None  # at a new coordinator, sessions restart
            return Heard.RETRY
        if code == wire.UnreleasedInstanceId.code and self._waits(now_ms):
            return Heard.RETRY
        self.on_fatal()
        return Heard.FATAL

    def _waits(self, now_ms: float) -> bool:
        """True if a dead process may hold the instance id until its session ends."""
        if not self.is_joining or self.session_ms == 0:
            return False
        if self._held_since_ms is None:
            self._held_since_ms = now_ms
        return now_ms - self._held_since_ms < self.session_ms + HELD_SLACK_MS

    def on_member_lost(self) -> None:
        """Ends the membership: the coordinator does not know the member."""
        self.reconciling.on_membership_lost()
        self.state = State.FENCED
        self._is_known = False
        self.epoch = JOIN_EPOCH
