"""Carries out the coordinator's decisions about a member's partitions, step by step.

* Giving up: stop delivery, commit the records delivered before the last poll, call the listener,
  acknowledge to the coordinator.
* Taking up: set the position to the committed offset, call the listener, deliver records.

A position is reset only if the coordinator answers, without an error, that nothing is committed
(P-116).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline._core.backoff import Backoff
from strandline._core.commit_state import Fate, fate
from strandline._core.reconciling import Kind, Step
from strandline._groups.rebalance_listener import ASSIGNED, LOST, REVOKED
from strandline.errors import BrokerError, StrandlineError, UnknownTopicId, describe
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline._consumer.assigned import Assigned
    from strandline._core.cluster_view import PartitionKey
    from strandline._core.commit_state import CommitOffset
    from strandline._core.membership import Membership
    from strandline._core.position import Position
    from strandline._groups.commits import Commits
    from strandline._groups.rebalance_listener import Listening
    from strandline._groups.stream import GroupStream
    from strandline._net.session import Session

LOOKUP_S: Final = 5.0
BACKOFF_MAX_MS: Final = 250.0


class Rebalancing:
    """The task that carries out the rebalance steps of one member."""

    def __init__(
        self,
        session: Session,
        membership: Membership,
        stream: GroupStream,
        commits: Commits,
        listening: Listening,
        assigned: Assigned,
        on_taken: Callable[[Iterable[Position]], None],
        *,
        auto_commit: bool,
        commit_timeout_s: float,
    ) -> None:
        self.obstacle: StrandlineError | None = None
        """What keeps partitions from being taken up."""
        self.polled = asyncio.Event()
        """Set while nothing that was handed over can be in work: a poll has begun."""
        self._session = session
        self._membership = membership
        self._core = membership.reconciling
        self._stream = stream
        self._commits = commits
        self._listening = listening
        self._assigned = assigned
        self._on_taken = on_taken
        self._auto_commit = auto_commit
        self._commit_timeout_s = commit_timeout_s
        self._changed = asyncio.Event()
        self._offsets: dict[PartitionKey, CommitOffset] = {}
        """Committed offsets that came with grants, until the grants are carried out."""
        self._granted = self._core.granted
        self._names: dict[PartitionKey, TopicPartition] = {}
        self._telling: frozenset[PartitionKey] = frozenset()
        """Partitions of the listener call that runs now."""
        self.failure: StrandlineError | None = None
        """To be raised by a poll: no asking again mends it."""
        self._releasing: list[asyncio.Future[None]] = []
        """Calls that wait for the end of the release that is under way; none is, if it is empty."""
        self._once_left: Callable[[], None] | None = None
        self._backoff = Backoff(max_ms=BACKOFF_MAX_MS)

    # What happens.

    def on_change(self, offsets: dict[PartitionKey, CommitOffset]) -> None:
        """Applies a new assignment: delivery of partitions that the member lost stops at once."""
        granted = self._core.granted
        for key in self._granted ^ granted:
            self._offsets.pop(key, None)
        self._granted = granted
        self._offsets |= {key: at for key, at in offsets.items() if key in granted}
        self._withhold()
        self._changed.set()

    def _withhold(self) -> None:
        """Limits delivery to partitions that the member owns and the application knows."""
        core = self._core
        for key in core.assigned:
            if (position := self._assigned.find(key)) is not None:
                is_own = key in core.granted and key not in core.lost
                position.withheld = not is_own or key in self._telling
        self._assigned.call_for_poll()

    async def release(self, commit_timeout_s: float) -> None:
        """Gives up all partitions and leaves. No poll may run meanwhile."""
        self._commit_timeout_s = min(self._commit_timeout_s, commit_timeout_s)
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._releasing.append(released)
        self._once_left = None
        self._listening.always = True
        self._listening.allow()
        self.polled.set()
        self._changed.set()
        try:
            await released
        finally:
            self._listening.always = any(not other.done() for other in self._releasing)

    def stay(self) -> bool:
        """Keeps the membership of an application that subscribes again during a release.

        Returns True if a release was under way: it completes the present step, and does not leave.
        """
        if not self._releasing or any(not released.done() for released in self._releasing):
            return False
        self._releasing = []
        return True

    def comes_back(self, once_left: Callable[[], None]) -> bool:
        """Joins again after an unsubscribe() that is under way.

        Returns True if one is; `once_left` then joins after the leave.
        """
        if self._releasing:
            self._once_left = once_left
        return bool(self._releasing)

    def leave_without_a_word(self) -> None:
        """Leaves without calls of the listener, after the deadline of `release`."""
        self._leave()

    # The task.

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while True:
                if self._releasing:
                    await self._release()
                    self._membership.on_given_up()  # in case it stays
                    self._stream.wake()
                step = self._core.next_step()
                if step is None:
                    break
                await self._carry_out(step)
                self._membership.on_given_up()
                self._stream.wake()

    async def _carry_out(self, step: Step) -> None:
        """Carries the step out; a remainder becomes the next step."""
        if step.kind is not Kind.ASSIGN:
            await self.polled.wait()
        if step.kind is Kind.LOSE:
            await self._give_up(LOST, step.partitions)
        elif step.kind is Kind.REVOKE:
            if self._core.next_step() != step:
                return  # it has been lost, or more is to be revoked
            await self._commit_before(step.partitions)
            if self._core.next_step() == step:
                await self._give_up(REVOKED, step.partitions)
        else:
            await self._take_up(step)

    async def _commit_before(self, keys: frozenset[PartitionKey]) -> None:
        if not self._auto_commit:
            return
        known = self._session.cluster.view.by_id  # offsets of a deleted topic cannot be committed
        due = {key: at for key, at in self._commits.state.due(keys).items() if key[0] in known}
        try:
            await self._commits.submit(due, self._commit_timeout_s, by_itself=True)
        except StrandlineError as error:
            self._session.runtime.log.warning(
                "what was read of revoked partitions could not be committed; their new owner reads "
                "it again",
                error=describe(error),
            )

    async def _give_up(self, method: str, keys: frozenset[PartitionKey]) -> None:
        await self._tell(method, keys)
        if method == REVOKED:  # commits of the listener still count
            await self._commits.settled(keys)
        self._forget(keys)

    def _forget(self, keys: frozenset[PartitionKey]) -> None:
        self._assigned.remove(keys)
        self._commits.state.forget(keys)
        self._core.on_told(keys)
        for key in keys - self._core.granted:
            self._names.pop(key, None)

    async def _tell(self, method: str, keys: frozenset[PartitionKey]) -> frozenset[PartitionKey]:
        """Calls the listener; returns the assigned partitions that were lost before the call."""
        self._telling = keys
        self._withhold()
        untold: frozenset[PartitionKey] = frozenset()

        def find() -> frozenset[TopicPartition]:
            nonlocal untold
            if method == ASSIGNED:
                untold = keys & self._core.lost
            return frozenset(self._names[key] for key in keys - untold)

        try:
            await self._listening.call(method, find)
        finally:
            self._telling = frozenset()
        return untold

    async def _release(self) -> None:
        releasing = self._releasing
        owned = self._core.assigned - self._core.lost
        if lost := self._core.lost:
            await self._give_up(LOST, lost)
        if owned:
            await self._commit_before(owned)
            if late := owned & self._core.lost:
                await self._give_up(LOST, late)
            if owned := owned & self._core.assigned:
                await self._give_up(REVOKED, owned)
        if self._releasing is releasing:  # else it has left already, or stays
            self._leave()

    def _leave(self) -> None:
        releasing, self._releasing = self._releasing, []
        self._membership.leave()
        self._forget(self._core.assigned)
        self._granted = self._core.granted
        self._offsets.clear()
        self._stream.wake()
        for released in releasing:
            if not released.done():
                released.set_result(None)
        once_left, self._once_left = self._once_left, None
        if once_left is not None:
            once_left()

    # Taking up.

    async def _take_up(self, step: Step) -> None:
        failures = await self._name(step.partitions)
        named = [key for key in step.partitions if key in self._names and key not in failures]
        offsets, failures = await self._sought(named, failures)
        still = self._core.still_granted(step)
        taken = frozenset(key for key in named if key in still and key in offsets)
        if taken:
            self._offsets = {k: v for k, v in self._offsets.items() if k not in taken}
            for key in taken:
                self._commits.state.on_committed_elsewhere(key, offsets[key])
            positions = [self._position(key, offsets[key]) for key in sorted(taken)]
            self._assigned.add(positions)
            self._on_taken(positions)
            self._core.on_assigned(taken)
            if untold := await self._tell(ASSIGNED, taken):
                self._forget(untold)
            self._withhold()
        self.obstacle = next(iter(failures.values()), None)
        if self.obstacle is None:
            self._backoff.reset()
            return
        self.failure = next(filter(is_final, failures.values()), None)
        self._assigned.call_for_poll()
        await self._pause()

    async def _pause(self) -> None:
        self._changed.clear()
        wait_ms = self._backoff.next_ms(self._session.runtime.rng.random())
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _name(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, StrandlineError]:
        """Looks up the topics' names; returns the errors of unknown topics."""
        cluster = self._session.cluster
        try:
            await cluster.learn({topic_id for topic_id, _ in keys}, LOOKUP_S)
        except StrandlineError as error:
            return dict.fromkeys(keys, error)
        failures: dict[PartitionKey, StrandlineError] = {}
        for key in keys:
            topic = cluster.view.by_id.get(key[0])
            if topic is None:
                failures[key] = UnknownTopicId(f"no broker knows the topic {key[0].hex()} yet")
            else:
                self._names[key] = TopicPartition(topic.name, key[1])
        return failures

    async def _sought(
        self, keys: list[PartitionKey], failures: dict[PartitionKey, StrandlineError]
    ) -> tuple[dict[PartitionKey, CommitOffset], dict[PartitionKey, StrandlineError]]:
        found = {key: self._offsets[key] for key in keys if key in self._offsets}
        if asked := [key for key in keys if key not in found]:
            fetched = await self._commits.fetch_once(asked, LOOKUP_S, by_member=True)
            found |= fetched.found
            failures |= fetched.failures
        return found, failures

    def _position(self, key: PartitionKey, at: CommitOffset) -> Position:
        position = self._assigned.position_at(self._names[key], key[0], at)
        position.is_granted = position.withheld = True
        return position


def is_final(error: StrandlineError) -> bool:
    """True if no retry would help. An error of the member's epoch waits for the next heartbeat."""
    if not isinstance(error, BrokerError):
        return False
    return fate(error.code, retriable=error.retriable) is Fate.REFUSED
