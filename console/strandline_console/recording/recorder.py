"""The recording: the live state, its frames as they are made, and every instant of 15 minutes.

Watchers of servers change `live`. The owner of the recorder calls `tick` after changes, at most 20
times a second, and `measuring` twice a second.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

from strandline_console.answers import LagHistory as LagAnswer
from strandline_console.answers import Timeline
from strandline_console.messages import (
    Delta,
    Instant,
    Keyframe,
    State,
    Summary,
    TimelineEvent,
    Window,
)
from strandline_console.recording.archive import BYTES_MAX, CHUNK, KEPT_MS, Archive
from strandline_console.recording.entities import WORKLOAD, Maps
from strandline_console.recording.figures import (
    GroupLag,
    Growth,
    LagHistory,
    summary_of,
)
from strandline_console.recording.live import Live
from strandline_console.recording.scope import (
    Scope,
    ordered_partitions,
    removed_within,
    within,
)

EVENTS_MAX: Final = 20_000


class Recorder:
    """`run` names the recording; `now_ms` is the console's clock."""

    def __init__(
        self,
        run: str,
        now_ms: Callable[[], int],
        *,
        bytes_max: int = BYTES_MAX,
        kept_ms: int = KEPT_MS,
        chunk: int = CHUNK,
    ) -> None:
        self.run = run
        self.on_change: Callable[[], None] = lambda: None
        """Called at the first change after each frame."""
        self.live = Live(now_ms, lambda: self.on_change())
        self.growth = Growth()
        self.kept_ms = kept_ms
        self.now_ms = now_ms
        self._summary = Summary()
        self._summary_changed = False
        self._lags = LagHistory()
        self._events: deque[TimelineEvent] = deque(maxlen=EVENTS_MAX)
        self._latest_ms = now_ms()
        self._archive = Archive(
            lambda: (self.live.maps, self._summary),
            bytes_max=bytes_max,
            kept_ms=kept_ms,
            chunk=chunk,
        )
        self._archive.begin(0, self._latest_ms)

    @property
    def size(self) -> int:
        """Bytes that the kept frames take."""
        return self._archive.size

    @property
    def frame(self) -> int:
        return self.live.frame

    # Recording.

    def measure(self) -> None:
        """Compute the figures that several reports make up."""
        for _ in self.measuring():
            pass

    def measuring(self) -> Iterator[None]:
        """`measure` in steps, whose work does not grow with the cluster."""
        maps, now_ms = self.live.maps, self.now_ms()
        summary = summary_of(maps, self.live.board, self.growth.rates(now_ms))
        if summary != self._summary:
            self._summary, self._summary_changed = summary, True
            self.on_change()
        lags: dict[str, int | None] = {}
        for key, group in list(maps["groups"].items()):
            yield
            found = GroupLag(maps, group)
            yield from found.steps()
            # A commit or a removal that came between the steps makes another report of it.
            if maps["groups"].get(key) is group and group["offsets"] is found.committed:
                self.live.set("groups", key, {"offsets": found.offsets, "lag": found.lag})
            lags[key] = found.lag
        self._lags.note(now_ms, lags)

    def tick(self) -> Delta:
        """Make a frame of the changes since the last one, and keep it."""
        changes = self.live.take()
        # The clock may be set back; instants only go forward.
        self._latest_ms = max(self._latest_ms, self.now_ms())
        delta = Delta(
            frame=self.live.frame,
            at_ms=self._latest_ms,
            summary=self._summary if self._summary_changed else None,
            changed=changes.changed,
            removed=changes.removed,
            events=changes.events,
        )
        self._summary_changed = False
        for event in delta.events:
            event.at_ms = delta.at_ms
        self._events.extend(delta.events)
        while self._events and self._events[0].at_ms < delta.at_ms - self.kept_ms:
            self._events.popleft()
        self._archive.add(delta)
        return delta

    # Reading.

    @property
    def ordered(self) -> list[str]:
        """All partitions now, in the order of the board. The list is replaced when it changes."""
        return self.live.board.names

    def now(self, scope: Scope) -> Keyframe:
        """The state at the last frame. A change since then is in the state already, and comes
        again with the next frame.
        """
        maps = self.live.maps
        names, window = scope.choose(self.ordered)
        if not scope.is_all:
            maps = {**maps, **self._chosen(names)}
        return self._keyframe(self.frame, self._latest_ms, maps, self._summary, window)

    def _chosen(self, names: Collection[str]) -> Maps:
        """The partitions of these names, and their replicas."""
        partitions, replicas = self.live.maps["partitions"], self.live.maps["replicas"]
        keys = [key for name in names for key in self.live.board.replicas_of(name)]
        return {
            "partitions": {name: partitions[name] for name in names if name in partitions},
            "replicas": {key: replicas[key] for key in keys},
        }

    def at(
        self, scope: Scope, *, instant_ms: int | None = None, frame: int | None = None
    ) -> Keyframe:
        """The state at the last frame at or before an instant, or at a frame. It reads the archive
        and may take long: any thread may call it.
        """
        number, at_ms, maps, summary = self._archive.state_at(instant_ms=instant_ms, frame=frame)
        names, window = scope.choose(ordered_partitions(maps))
        if not scope.is_all:
            maps = {**maps, **_empty, **within(maps, names)}
        return self._keyframe(number, at_ms, maps, summary, window)

    def _keyframe(
        self, frame: int, at_ms: int, scoped: Maps, summary: Summary, window: Window
    ) -> Keyframe:
        state = State(
            summary=summary,
            servers=scoped["servers"],  # type: ignore[arg-type]
            partitions=scoped["partitions"],  # type: ignore[arg-type]
            replicas=scoped["replicas"],  # type: ignore[arg-type]
            groups=scoped["groups"],  # type: ignore[arg-type]
            faults=scoped["faults"],  # type: ignore[arg-type]
            pipelines=scoped["pipelines"],  # type: ignore[arg-type]
            workload=scoped["workload"].get(WORKLOAD),  # type: ignore[arg-type]
        )
        instant = Instant(
            frame=frame,
            at_ms=at_ms,
            oldest_ms=self._archive.oldest_ms,
            newest_ms=self._latest_ms,
        )
        return Keyframe(run=self.run, instant=instant, window=window, state=state)

    def maps_at(self, instant: dict[str, int] | None) -> tuple[Maps, int]:
        """The whole state and its instant; the state now if none is given."""
        if instant is None:
            return self.live.maps, self._latest_ms
        _, at_ms, maps, _ = self._archive.state_at(**instant)
        return maps, at_ms

    def events_before(self, at_ms: int) -> Iterator[TimelineEvent]:
        """The events up to an instant, the latest first."""
        return (event for event in reversed(self._events) if event.at_ms <= at_ms)

    def all_events(self) -> Iterator[TimelineEvent]:
        """The kept events and those of the frame that is being made, in order."""
        yield from self._events
        yield from self.live.pending_events

    def has_all_after(self, frame: int) -> bool:
        """True if every frame after this one is kept."""
        return self._archive.oldest_frame <= frame <= self.frame

    def deltas_after(
        self, frame: int, scope: Scope, *, until_ms: int | None = None
    ) -> Iterator[Delta]:
        """The frames after one, within the scope as it is now. Any thread may read them on."""
        names = scope.choose(self.ordered)[0]
        return self._deltas_after(frame, scope, names, until_ms)

    def _deltas_after(
        self, frame: int, scope: Scope, names: frozenset[str], until_ms: int | None
    ) -> Iterator[Delta]:
        for delta in self._archive.deltas_after(frame, until_ms=until_ms):
            yield delta if scope.is_all else within_scope(delta, names)

    def timeline(self, first_ms: int, last_ms: int, limit: int) -> Timeline:
        """Events from `first_ms` to `last_ms`, the oldest first."""
        events = list(self._events)
        first = bisect_left(events, first_ms, key=lambda event: event.at_ms)
        found = list(islice((e for e in events[first:] if e.at_ms <= last_ms), limit + 1))
        return Timeline(
            run=self.run,
            oldest_ms=self._archive.oldest_ms,
            newest_ms=self._latest_ms,
            events=found[:limit],
            more=len(found) > limit,
        )

    def lag_between(self, group: str, first_ms: int, last_ms: int) -> LagAnswer:
        """The lag of a group between two instants, within the time that is kept."""
        newest = self._latest_ms
        first_ms = min(newest, max(first_ms, newest - self.kept_ms))
        lags = self._lags.between(group, first_ms, min(last_ms, newest))
        return LagAnswer(group=group, first_ms=first_ms // 1000 * 1000, step_ms=1000, lags=lags)


_empty: Final[Maps] = {"partitions": {}, "replicas": {}}


def within_scope(delta: Delta, partitions: frozenset[str]) -> Delta:
    """The part of a frame that a scope has."""
    return Delta(
        frame=delta.frame,
        at_ms=delta.at_ms,
        summary=delta.summary,
        changed=within(delta.changed, partitions),
        removed=removed_within(delta.removed, partitions),
        events=delta.events,
    )


def is_empty(delta: Delta) -> bool:
    """True if a frame has nothing for its scope."""
    return not (delta.changed or delta.removed or delta.events or delta.summary)
