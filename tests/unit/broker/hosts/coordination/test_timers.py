"""The timers of all shards: when they fire, and what a pause of the process does to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.effects import RebalanceTimer, SessionTimer
from strandline_broker.hosts.coordination.timers import LATE_MS, Timers
from support.stalled_timers import StalledTimers, swept

if TYPE_CHECKING:
    from collections.abc import Hashable

SESSION = SessionTimer("g", "m")
REBALANCE = RebalanceTimer("g", "m")
SESSION_MS = 45_000


@dataclass(eq=False)
class Owner:
    fired: list[tuple[Hashable, int]] = field(default_factory=list)

    def on_timer(self, key: Hashable, epoch: int) -> None:
        self.fired.append((key, epoch))


@dataclass
class Rig:
    now_ms: int = 1_000
    owner: Owner = field(default_factory=Owner)

    def __post_init__(self) -> None:
        self.timers = Timers(lambda: self.now_ms)

    def passes(self, ms: int) -> None:
        self.now_ms += ms
        self.timers.fire()


def test_a_timer_fires_once_when_its_time_is_over() -> None:
    rig = Rig()
    rig.timers.start(rig.owner, REBALANCE, 100, 7)
    rig.passes(99)
    assert rig.owner.fired == []
    rig.passes(1)
    rig.passes(1_000)
    assert rig.owner.fired == [(REBALANCE, 7)]
    assert rig.timers.running(rig.owner) == set()


def test_who_is_heard_has_the_whole_time_again() -> None:
    rig = Rig()
    rig.timers.start(rig.owner, SESSION, 100)
    rig.passes(90)
    rig.timers.renew(rig.owner, SESSION)
    rig.passes(99)
    assert rig.owner.fired == []
    rig.passes(1)
    assert rig.owner.fired == [(SESSION, -1)]
    rig.timers.renew(rig.owner, SESSION)
    assert rig.timers.running(rig.owner) == set(), "one that does not run is not begun"


def test_a_new_timer_takes_the_place_of_the_one_before() -> None:
    rig = Rig()
    rig.timers.start(rig.owner, REBALANCE, 1_000, 1)
    rig.timers.start(rig.owner, REBALANCE, 100, 2)
    rig.passes(100)
    rig.passes(1_000)
    assert rig.owner.fired == [(REBALANCE, 2)]


def test_what_is_stopped_does_not_fire() -> None:
    rig = Rig()
    other = Owner()
    rig.timers.start(rig.owner, SESSION, 100)
    rig.timers.start(rig.owner, REBALANCE, 100)
    rig.timers.start(other, SESSION, 100)
    rig.timers.stop(rig.owner, REBALANCE)
    rig.timers.stop_all(other)
    rig.passes(100)
    assert rig.owner.fired == [(SESSION, -1)]
    assert other.fired == []


def test_sessions_that_run_are_counted() -> None:
    rig, other = Rig(), Owner()
    for owner, key in ((rig.owner, SESSION), (rig.owner, REBALANCE), (other, SESSION)):
        rig.timers.start(owner, key, 100)
        rig.timers.start(owner, key, 200)
    assert rig.timers.count(SessionTimer) == 2
    rig.timers.stop(other, SESSION)
    rig.timers.stop(other, SESSION)
    assert rig.timers.count(SessionTimer) == 1
    rig.passes(200)
    assert rig.timers.count(SessionTimer) == 0
    rig.timers.start(rig.owner, SESSION, 100)
    rig.timers.stop_all(rig.owner)
    assert rig.timers.count(SessionTimer) == 0


def test_a_pause_is_given_back_to_timers_of_which_it_is_a_large_part() -> None:
    rig = Rig()
    short, long = SessionTimer("g", "short"), SessionTimer("g", "long")
    rig.timers.start(rig.owner, short, SESSION_MS)
    rig.timers.start(rig.owner, long, 10 * SESSION_MS)
    rig.now_ms += 50_000
    rig.timers.on_late(50_000)
    rig.passes(SESSION_MS - 1)
    assert rig.owner.fired == []
    rig.passes(1)
    assert rig.owner.fired == [(short, -1)]
    rig.passes(10 * SESSION_MS - 50_000 - SESSION_MS)
    assert rig.owner.fired == [(short, -1), (long, -1)]


def test_who_was_heard_after_a_pause_is_given_no_time_back() -> None:
    """I-96: its beat was read before the first look at the clock, and it may have died since."""
    rig = Rig()
    rig.timers.start(rig.owner, SESSION, SESSION_MS)
    rig.now_ms += 50_000
    rig.timers.renew(rig.owner, SESSION)
    rig.timers.on_late(50_000)
    rig.passes(SESSION_MS - 1)
    assert rig.owner.fired == []
    rig.passes(1)
    assert rig.owner.fired == [(SESSION, -1)]


@dataclass(eq=False)
class TimedOwner(Owner):
    rig: Rig = field(default_factory=Rig)
    at_ms: int = 0

    def on_timer(self, key: Hashable, epoch: int) -> None:
        super().on_timer(key, epoch)
        self.at_ms = self.rig.now_ms


class StoppedTimers(StalledTimers):
    """They stand still from the beginning of a sleep on."""

    async def _sleep(self, ms: int) -> int:
        self.stall_ms = max(0, self.stall_ms - ms)
        return await super()._sleep(ms)


@pytest.mark.parametrize("pause_ms", [400, 600, 800])
async def test_a_pause_is_given_back_whole_whenever_it_began(pause_ms: int) -> None:
    rig = Rig()
    owner = TimedOwner(rig=rig)
    timers = StoppedTimers(rig, pause_ms, lambda: None)
    timers.start(owner, SESSION, 1_500)
    await swept(timers, turns=100)
    assert owner.fired == [(SESSION, -1)]
    assert owner.at_ms >= 1_000 + pause_ms + 1_500


@pytest.mark.parametrize("pause_ms", [400, 600, 800])
async def test_a_pause_right_after_another_one_is_given_back_too(pause_ms: int) -> None:
    rig = Rig()
    owner, pauses_ms = TimedOwner(rig=rig), [pause_ms]

    def again() -> None:
        if pauses_ms:
            timers.stall_ms = pauses_ms.pop()

    timers = StoppedTimers(rig, pause_ms, again)
    timers.start(owner, SESSION, 1_500)
    await swept(timers, turns=100)
    assert owner.fired == [(SESSION, -1)]
    assert owner.at_ms >= 1_000 + 2 * pause_ms + 1_500


async def test_a_short_pause_lets_the_sockets_be_read_first() -> None:
    rig = Rig()
    heard_ms: list[int] = []

    def read() -> None:
        """The message that had waited is read as soon as there is time for it."""
        if rig.now_ms > 1_000 + SESSION_MS and not heard_ms:
            heard_ms.append(rig.now_ms)
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: loop.call_soon(timers.renew, rig.owner, SESSION))

    timers = StalledTimers(rig, 0, read)
    timers.start(rig.owner, SESSION, SESSION_MS)
    rig.now_ms += SESSION_MS - 100
    timers.stall_ms = 2 * LATE_MS
    await swept(timers, turns=20)
    assert heard_ms
    assert rig.owner.fired == []


async def test_what_was_read_already_comes_before_the_timer() -> None:
    rig = Rig()

    def read() -> None:
        if rig.now_ms >= 1_010:
            asyncio.get_running_loop().call_soon(timers.renew, rig.owner, SESSION)

    timers = StalledTimers(rig, 0, read)
    timers.start(rig.owner, SESSION, 10)
    await swept(timers, turns=12)
    assert rig.now_ms >= 1_010
    assert rig.owner.fired == []


async def test_a_pause_that_begins_with_the_first_timer_is_given_back() -> None:
    """Its member has joined, and the disk that its record goes to stalls for the whole session."""
    rig = Rig()
    timers = StalledTimers(rig, 0, lambda: None)

    async def join() -> None:
        await asyncio.sleep(0)
        timers.start(rig.owner, SESSION, 1_500)
        rig.now_ms += 1_500

    joining = asyncio.create_task(join())
    await swept(timers, turns=10)
    await joining
    assert rig.now_ms < 1_000 + 2 * 1_500
    assert rig.owner.fired == []


async def test_a_pause_before_the_first_look_is_given_back() -> None:
    """The task that looks is made when the first coordinator is, and may come to it late."""
    rig = Rig()
    timers = StalledTimers(rig, 0, lambda: None)
    timers.start(rig.owner, SESSION, 1_500)
    rig.now_ms += 1_500
    await swept(timers, turns=10)
    assert rig.now_ms < 1_000 + 2 * 1_500
    assert rig.owner.fired == []


class StoppedLast(StalledTimers):
    """They stand still while what was read before a timer is due is looked at."""

    async def _sleep(self, ms: int) -> int:
        if ms > 0:
            return await super()._sleep(ms)
        await asyncio.sleep(0)
        late_ms, self.stall_ms = self.stall_ms, 0
        self._rig.now_ms += late_ms
        return late_ms


async def test_a_pause_at_the_last_moment_is_given_back() -> None:
    rig = Rig()
    owner = TimedOwner(rig=rig)
    timers = StoppedLast(rig, 0, lambda: None)
    timers.start(owner, SESSION, 1_500)
    timers.stall_ms = 1_500
    await swept(timers, turns=100)
    assert owner.fired == [(SESSION, -1)]
    assert owner.at_ms >= 1_000 + 2 * 1_500
