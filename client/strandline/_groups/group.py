"""A consumer's part in its group: the effects of polls, commits and the end of the consumer."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Final

from strandline._core.commit_state import CommitOffset
from strandline._core.membership import Membership, Subscription
from strandline._groups.commits import Commits
from strandline._groups.messages import MemberOptions
from strandline._groups.rebalance_listener import Listening
from strandline._groups.rebalancing import Rebalancing
from strandline._groups.stream import GroupStream
from strandline._net.coordinator import Coordinator
from strandline.errors import OperationTimedOut, StrandlineError, describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline._consumer.assigned import Assigned
    from strandline._consumer.options import ConsumerOptions
    from strandline._core.cluster_view import PartitionKey
    from strandline._core.position import Position
    from strandline._net.session import Session

LEAVE_S: Final = 1.0
"""Wait for the coordinator's answer to a leave; the end of the session has the same effect."""
_COMMIT_SHARE: Final = 0.8
"""Share of the time of `stop`."""


class Group:
    """Membership, commits and listeners of one started consumer."""

    def __init__(self, session: Session, assigned: Assigned, options: ConsumerOptions) -> None:
        assert options.group_id is not None
        self._session = session
        self._assigned = assigned
        self._options = options
        self.member = MemberOptions(
            options.group_id,
            base64.urlsafe_b64encode(session.runtime.random_id()).decode().rstrip("="),
            options.group_instance_id,
            options.group_remote_assignor,
            options.max_poll_interval_ms,
            options.client_id or f"strandline-{session.runtime.pid}",
            options.require_stable,
        )
        coordinator = Coordinator(session, options.group_id)
        self.membership = Membership(static=options.group_instance_id is not None)
        self.stream = GroupStream(
            session, coordinator, self.membership, self.member, self._on_change
        )
        self.commits = Commits(session, coordinator, self.membership, self.stream, self.member)
        self.listening = Listening(session.runtime, assigned.call_for_poll)
        self.rebalancing = Rebalancing(
            session,
            self.membership,
            self.stream,
            self.commits,
            self.listening,
            assigned,
            self.on_moved,
            auto_commit=options.enable_auto_commit,
            commit_timeout_s=options.request_timeout_s,
        )
        self._polls = 0
        """That are in progress."""
        self._polled_at_s = self._now_s()
        self._handed: dict[Position, None] = {}
        """Positions that have moved since the last poll began."""

    def _now_s(self) -> float:
        return self._session.runtime.clock.monotonic()

    def start(self) -> None:
        self._session.on_broken.append(lambda _: self.commits.end())
        tasks = self._session.tasks
        tasks.start(self.commits.run(), "commits")
        tasks.start(self.stream.run(), "group session")
        tasks.start(self.rebalancing.run(), "rebalancing")
        tasks.start(self._watch_polls(), "max poll interval")
        if self._options.enable_auto_commit:
            tasks.start(self._auto_commit(), "auto-commit")

    # Membership.

    def subscribe(self, subscription: Subscription, listener: object) -> None:
        """Joins the group, or replaces the subscription."""
        if self.stream.fatal is not None:
            raise self.stream.fatal
        if self.rebalancing.stay():
            if self._polls == 0:
                self.rebalancing.polled.clear()
        elif self.rebalancing.comes_back(lambda: self._join(subscription, listener)):
            return
        self._join(subscription, listener)

    def _join(self, subscription: Subscription, listener: object) -> None:
        self.listening.listener = listener
        self._polled_at_s = self._now_s()
        if self.membership.subscribe(subscription):
            self.stream.fatal = None  # from the membership before
            self.stream.restart()
        self.stream.wake()

    async def unsubscribe(self, timeout_s: float) -> None:
        """Commits, runs the listener and leaves; past the deadline, leaves without the listener."""
        self.listening.require_outside("unsubscribe")
        deadline_s = self._now_s() + timeout_s
        commit_timeout_s = timeout_s * _COMMIT_SHARE
        self.commits.hurry(commit_timeout_s)
        if self.membership.subscription is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self.rebalancing.release(commit_timeout_s)
            except TimeoutError:
                self._session.runtime.log.warning(
                    "a consumer leaves its group before everything was committed and told"
                )
                self.rebalancing.leave_without_a_word()
            left_s = min(LEAVE_S, max(0.05, deadline_s - self._now_s()))
            try:
                async with asyncio.timeout(left_s):
                    await self.stream.quiet.wait()
            except TimeoutError:
                if not self.is_subscribed:  # else it is in the group again
                    self.membership.on_left()  # the session's end has the same effect
                    self.stream.restart()
        elif self._options.enable_auto_commit:
            await self._commit_now(commit_timeout_s)
        if not self.is_subscribed:  # else it is of those who have joined again
            self.stream.fatal = None
        if self._polls == 0:
            self.rebalancing.polled.clear()

    async def _commit_now(self, timeout_s: float) -> None:
        self._assigned.lending.look()
        try:
            await self.commits.submit(self.commits.state.due(), timeout_s, by_itself=True)
        except StrandlineError as error:
            self._session.runtime.log.warning("auto-commit failed", error=describe(error))

    def _on_change(self, offsets: dict[PartitionKey, CommitOffset]) -> None:
        self.rebalancing.on_change(offsets)

    # Polls.

    def begin_poll(self) -> None:
        """Marks the records delivered so far as processed."""
        self.listening.require_outside("a poll")
        self._polls += 1
        if self._handed:
            handed = [p for p in self._handed if self._assigned.find(p.key) is p]
            self.commits.state.on_poll({p.key: at_of(p) for p in handed if p.offset >= 0})
            self._handed = {p: None for p in handed if p.offset < 0}
        self.rebalancing.polled.set()

    def end_poll(self) -> None:
        self._polls -= 1
        self._polled_at_s = self._now_s()
        if self._polls == 0 and not self.listening.always:
            self.rebalancing.polled.clear()

    async def attend(self) -> None:
        """Joins again if the member was out, runs the listener, raises errors; part of a poll."""
        if self.membership.on_poll():
            self._polled_at_s = self._now_s()
            self.stream.restart()
        await self.listening.attend()
        if self.stream.fatal is not None:
            raise self.stream.fatal
        failure, self.rebalancing.failure = self.rebalancing.failure, None
        if failure is not None:
            raise failure

    def on_moved(self, positions: Iterable[Position]) -> None:
        """Notes positions that a delivery or a seek has moved."""
        self._handed.update(dict.fromkeys(positions))

    def on_step(self, position: Position, at: CommitOffset) -> None:
        """Notes a step of an iteration on another thread, which is a poll.

        The records before its last one are processed.
        """
        self._polled_at_s = self._now_s()
        if self._assigned.find(position.key) is position:
            self.commits.state.on_poll({position.key: at})

    def on_sought(self, position: Position) -> None:
        self.commits.state.on_sought(position.key)
        self._handed[position] = None

    async def wait_assigned(self, timeout_s: float | None) -> None:
        """Waits until partitions are assigned and the listener has run; part of a poll."""
        assert self._assigned.fetcher is not None
        arrived = self._assigned.fetcher.arrived
        try:
            async with asyncio.timeout(timeout_s):
                while not any(not p.withheld for p in self._assigned.of(())):
                    arrived.clear()
                    await self.attend()
                    if any(not p.withheld for p in self._assigned.of(())):
                        return
                    await arrived.wait()
                    self._session.require()
                    self._assigned.running()
        except TimeoutError:
            assert timeout_s is not None
            cause = self.stream.obstacle or self.rebalancing.obstacle
            why = "the group has no partition for this member"
            raise OperationTimedOut(
                f"nothing was assigned within {timeout_s * 1000:.0f} ms: "
                f"{why if cause is None else describe(cause)}",
                cause,
            ) from None

    async def _watch_polls(self) -> None:
        """Leaves the group if the application does not poll for too long."""
        limit_s = self._options.max_poll_interval_ms / 1000
        while True:
            await asyncio.sleep(min(limit_s / 4, 1.0))
            self._assigned.lending.look()
            if self._polls > 0 and not self.listening.is_running:
                self._polled_at_s = self._now_s()
            if not self.membership.is_member or self._now_s() - self._polled_at_s < limit_s:
                continue
            self._session.runtime.log.warning(
                "no poll for max_poll_interval_ms: the consumer leaves its group until the next "
                "one; raise it, or ask for fewer records with max_poll_records",
                max_poll_interval_ms=self._options.max_poll_interval_ms,
            )
            self.membership.on_poll_overdue()
            self.rebalancing.on_change({})
            self.stream.wake()

    async def _auto_commit(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            if not self.commits.state.commits_by_itself:
                await self._commit_now(self._options.request_timeout_s)

    @property
    def is_subscribed(self) -> bool:
        return self.membership.subscription is not None


def at_of(position: Position) -> CommitOffset:
    return CommitOffset(position.offset, position.epoch)
