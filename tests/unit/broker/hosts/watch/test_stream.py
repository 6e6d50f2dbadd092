"""The frames for one watcher: keyframes, numbers, pace, and a watcher that is too slow."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.common.events import RECENT_MAX, Events
from strandline_broker.hosts.watch.content import Identity, ReplicaChange, ServerKind
from strandline_broker.hosts.watch.selection import ALL
from strandline_broker.hosts.watch.stream import (
    LATE_S,
    QUIET_S,
    SHARE,
    SIZE_MAX,
    WATCHERS_MAX,
    Watch,
)
from strandline_proto.errors import ThrottlingQuotaExceeded
from support.hand_clock import HandClock

if TYPE_CHECKING:
    from strandline_broker.hosts.watch.content import Frame
    from strandline_broker.hosts.watch.draft import Draft, Pauses


class FakeSource:
    """A server with numbered entries, each of which takes `look_s` to look at."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.events = Events(self.clock)
        self.entries: dict[int, int] = {}
        self.incarnation = "one"
        self.look_s = 0.0
        self.looks = 0

    def identity(self) -> Identity:
        return Identity("c", ServerKind.BROKER, 1, self.incarnation)

    def view(self, selection: Any) -> FakeView:
        return FakeView(self)

    def watch(self, frames_per_s: int = 20) -> Watch:
        async def sleep(seconds: float) -> None:
            self.clock.now_s += seconds

        return Watch(self, ALL, frames_per_s, sleep=sleep)


class FakeView:
    def __init__(self, source: FakeSource) -> None:
        self._source = source
        self._seen: dict[int, int] = {}

    def forget(self) -> None:
        self._seen = {}

    def look(self, draft: Draft) -> Pauses:
        self._source.looks += 1
        self._source.clock.now_s += self._source.look_s
        for number, value in self._source.entries.items():
            if self._seen.get(number) != value:
                self._seen[number] = value
                draft.content.replicas.append(ReplicaChange("t", b"", number))
                draft.content.size += 1
                yield
        yield

    def has(self, what: Any) -> bool:
        return bool(what != "unselected")


def entries(frame: Frame) -> list[int]:
    return [change.partition for change in frame.content.replicas]


def events(frame: Frame) -> list[Any]:
    return [event.what for event in frame.content.events]


async def test_a_keyframe_comes_first_and_then_only_what_has_changed() -> None:
    source = FakeSource()
    source.entries = {1: 0, 2: 0}
    async with aclosing(source.watch().frames()) as frames:
        first = await anext(frames)
        assert (first.keyframe, first.sequence, entries(first)) == (True, 1, [1, 2])
        source.entries[2] = 5
        second = await anext(frames)
        assert (second.keyframe, second.sequence, entries(second)) == (False, 2, [2])


async def test_changes_between_two_frames_are_one_change_and_frames_keep_their_distance() -> None:
    source = FakeSource()
    async with aclosing(source.watch(frames_per_s=4).frames()) as frames:
        began_s = (await anext(frames)).time_ms / 1000
        for value in range(1, 9):
            source.entries[1] = value
            frame = await anext(frames)
            assert entries(frame) == [1]
            assert frame.time_ms / 1000 - began_s == pytest.approx(value / 4)


async def test_a_quiet_server_gives_a_sign_of_life_and_nothing_else() -> None:
    source = FakeSource()
    async with aclosing(source.watch().frames()) as frames:
        first = await anext(frames)
        quiet = await anext(frames)
        waited_ms = quiet.time_ms - first.time_ms
        assert QUIET_S * 1000 <= waited_ms <= QUIET_S * 1000 + 50, "at the next look"
        assert (quiet.content.size, quiet.keyframe) == (0, False)


async def test_a_slow_watcher_gets_a_keyframe_and_the_number_of_lost_events() -> None:
    source = FakeSource()
    source.entries = {1: 0, 2: 0}
    async with aclosing(source.watch().frames()) as frames:
        await anext(frames)
        for number in range(RECENT_MAX + 7):  # while the watcher is away
            source.events.note(number)
            source.entries[1] = number
        looks = source.looks
        source.clock.now_s += LATE_S + 1
        late = await anext(frames)
        assert source.looks == looks + 1, "one look, however long it was away"
        assert (late.keyframe, entries(late), late.events_lost) == (True, [1, 2], 7)
        assert late.sequence == 2
        assert events(late)[0] == 7


async def test_a_large_look_continues_in_more_frames_of_bounded_size() -> None:
    source = FakeSource()
    source.entries = dict.fromkeys(range(2 * SIZE_MAX + 3), 0)
    async with aclosing(source.watch().frames()) as frames:
        parts = [await anext(frames) for _ in range(3)]
    assert [len(part.content.replicas) for part in parts] == [SIZE_MAX, SIZE_MAX, 3]
    assert [(part.keyframe, part.continues) for part in parts] == [
        (True, True),
        (False, True),
        (False, False),
    ]


async def test_another_incarnation_begins_with_a_keyframe() -> None:
    source = FakeSource()
    source.entries = {1: 0}
    async with aclosing(source.watch().frames()) as frames:
        await anext(frames)
        source.incarnation = "two"
        frame = await anext(frames)
        assert (frame.keyframe, frame.identity.incarnation_id, entries(frame)) == (
            True,
            "two",
            [1],
        )


async def test_costly_looks_take_place_less_often() -> None:
    source = FakeSource()
    source.look_s = 0.02
    async with aclosing(source.watch().frames()) as frames:
        times = []
        for value in range(4):
            source.entries[1] = value
            times.append((await anext(frames)).time_ms)
    assert times[-1] - times[0] == pytest.approx(3 * 1000 * source.look_s / SHARE, abs=2)


async def test_one_slow_look_of_a_busy_machine_does_not_slow_the_stream() -> None:
    source = FakeSource()
    async with aclosing(source.watch().frames()) as frames:
        await anext(frames)
        source.look_s, source.entries[1] = 0.5, 1
        before = await anext(frames)
        source.look_s, source.entries[1] = 0.0, 2
        assert (await anext(frames)).time_ms - before.time_ms <= 50


async def test_kept_events_are_repeated_by_a_keyframe_and_unselected_ones_left_out() -> None:
    source = FakeSource()
    source.events.keep("cut before")
    async with aclosing(source.watch().frames()) as frames:
        assert events(await anext(frames)) == ["cut before"]
        source.events.note("unselected")
        source.events.note("other")
        assert events(await anext(frames)) == ["other"]
        source.incarnation = "two"
        assert events(await anext(frames)) == ["cut before"]


async def test_the_number_of_watchers_is_bounded_and_one_that_leaves_makes_room() -> None:
    source = FakeSource()
    streams = [source.watch().frames() for _ in range(WATCHERS_MAX)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(ThrottlingQuotaExceeded, match="16 streams watch this server"):
        await anext(source.watch().frames())
    await streams[0].aclose()
    await anext(source.watch().frames())
    for stream in streams:
        await stream.aclose()


async def test_a_watcher_that_leaves_is_not_counted_any_more() -> None:
    source = FakeSource()
    async with aclosing(source.watch().frames()) as frames:
        await anext(frames)
        assert (source.events.watchers, source.events.is_watched) == (1, True)
    assert (source.events.watchers, source.events.is_watched) == (0, False)
