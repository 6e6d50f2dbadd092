"""A member's side of the consumer protocol (KIP-848): what it is, and which heartbeat is next.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> ACKNOWLEDGING -> STABLE
    any of a member's states -> FENCED -> JOINING       the coordinator no longer knows it
    any of a member's states -> STALE -> JOINING        no poll for max.poll.interval.ms
    any of a member's states -> LEAVING -> UNSUBSCRIBED
    any of a member's states -> FATAL                   nothing that it can do would mend it

Heartbeats travel on streams. A stream is one generation; the first heartbeat of it has all fields,
the others what has changed. An answer of an older generation tells of a past that the member has
left, and is dropped (I-177). `seen_push` is the last push that was taken in, so that the
coordinator can tell an acknowledgement from a message that crossed its grant (I-134).
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
"""A static member's place is kept for its session."""
INTERVAL_MS: Final = 5000.0
"""Until the coordinator has said how often it wants to hear of the member."""
SILENT_INTERVALS: Final = 2.0
"""A coordinator that has said nothing for so many intervals is not there (P-152)."""
HELD_SLACK_MS: Final = 3000.0
"""Beyond a session, that of a process that has died is over at its coordinator too."""

_LOST: Final = frozenset(
    {
        wire.UnknownMemberId.code,
        wire.FencedMemberEpoch.code,
        wire.IllegalGeneration.code,
    }
)


class State(enum.Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """Something is to be given up before the assignment can be acknowledged."""
    ACKNOWLEDGING = "acknowledging"
    """The acknowledgement is to be sent."""
    STABLE = "stable"
    FENCED = "fenced"
    """The coordinator has forgotten the member, which joins anew as soon as it can."""
    LEAVING = "leaving"
    STALE = "stale"
    """Out by its own word, until the next poll."""
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
    """The first of its stream: with timeouts and assignor."""
    subscription: Subscription | None
    clears_pattern: bool
    """The subscription has no regular expression, and an earlier one had."""
    owned: frozenset[PartitionKey] | None


class Heard(enum.Enum):
    """What an answer meant."""

    DROPPED = "dropped"
    """Of another stream, or of a membership that has ended."""
    FINE = "fine"
    RETRY = "retry"
    """Not now, or not there: the stream is to be opened again, perhaps elsewhere."""
    LOST = "lost"
    """The member is none any more, and joins anew."""
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
        """Of the stream that is open, or was last."""
        self.has_left = True
        """LEAVING, STALE: whether the coordinator knows, or needs not know."""
        self.session_ms = 0.0
        """The group's session timeout, once a static member has had to ask for it."""
        self._held_since_ms: float | None = None
        """When it was first refused since another member has its instance id."""
        self._static = static
        self._seq = 0
        self._seen_push = 0
        self._first = True
        self._subscription_due = False
        self._had_pattern = False
        self._acknowledgement_due = False
        self._leave_said = False
        """On the stream that is open."""
        self._is_known = False
        """Whether the coordinator may have heard of the member."""
        self._beat_at_ms = 0.0
        self._heard_at_ms = 0.0

    @property
    def is_member(self) -> bool:
        """Whether it is in the group, or on its way."""
        return self.state in _MEMBER

    @property
    def wants_stream(self) -> bool:
        return self.is_member or not self.has_left

    # The application.

    def subscribe(self, subscription: Subscription) -> bool:
        """Join with this subscription, or replace the one of before. True if the member joins, for
        which it needs a new stream.
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
        """Out of the group, by the application's will. What it owned has been revoked."""
        was_member = self.is_member
        self.reconciling.on_membership_lost()
        self.subscription = None
        if self.state is State.FATAL or (self.state is State.STALE and self.has_left):
            self.state = State.UNSUBSCRIBED
        elif was_member or self.state is State.STALE:
            self._go(State.LEAVING)

    def on_poll_overdue(self) -> None:
        """The application has not polled for too long: others shall do its work."""
        if not self.is_member:
            return
        self.reconciling.on_membership_lost()
        self._go(State.STALE)

    def on_poll(self) -> bool:
        """The application is back. True if the member joins anew, and needs a new stream."""
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
        """The coordinator knows, or nobody can be told: its session timeout will say so."""
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
        """A step of the reconciliation has ended."""
        if self.state is State.RECONCILING and self.reconciling.is_given_up:
            self._acknowledge()

    def _acknowledge(self) -> None:
        self.state = State.ACKNOWLEDGING
        self._acknowledgement_due = True

    # Streams and heartbeats.

    def on_stream_opened(self, now_ms: float) -> int:
        """A new stream; the number that all its messages carry."""
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
        """When the next heartbeat is due; at once if there is news."""
        if self._is_to_leave:
            return float("inf") if self._leave_said else 0.0
        if self.epoch == JOIN_EPOCH and not self._first:
            return float("inf")  # what joins says all; until it is answered there is no more to say
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
        """When the stream is to be given up unless something is heard."""
        return self._heard_at_ms + SILENT_INTERVALS * self.interval_ms

    def on_heard(self, generation: int, now_ms: float) -> bool:
        """A message came. False if it is of an older stream, and means nothing."""
        if generation != self.generation:
            return False
        self._heard_at_ms = now_ms
        return True

    # Answers.

    def _is_of_before(self, generation: int) -> bool:
        """Whether it answers what an earlier stream has said, or an earlier membership (P-124)."""
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
        """The coordinator told the member of itself."""
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
                self.on_left()  # as good as out, whatever the reason
            return Heard.RETRY if retriable else Heard.DROPPED
        if not self.is_member:
            return Heard.DROPPED
        # A group that is not there any more has forgotten its members too.
        forgotten = code == wire.GroupIdNotFound.code and self.epoch != JOIN_EPOCH
        if code in _LOST or forgotten:
            self.on_member_lost()
            return Heard.LOST
        if retriable:
            self._held_since_ms = None  # with another coordinator sessions begin again
            return Heard.RETRY
        if code == wire.UnreleasedInstanceId.code and self._waits(now_ms):
            return Heard.RETRY
        self.on_fatal()
        return Heard.FATAL

    def _waits(self, now_ms: float) -> bool:
        """Whether who has the instance id may be a process that has died, whose session lasts."""
        if not self.is_joining or self.session_ms == 0:
            return False
        if self._held_since_ms is None:
            self._held_since_ms = now_ms
        return now_ms - self._held_since_ms < self.session_ms + HELD_SLACK_MS

    def on_member_lost(self) -> None:
        """The coordinator has answered that it does not know the member."""
        self.reconciling.on_membership_lost()
        self.state = State.FENCED
        self._is_known = False
        self.epoch = JOIN_EPOCH
