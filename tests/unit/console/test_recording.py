"""The recording gives back every instant that it keeps, within its bytes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_console.messages import Delta, Keyframe
from strandline_console.recording.entities import new_entity
from strandline_console.recording.recorder import Recorder
from strandline_console.recording.scope import ALL, Scope


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def a_recorder(**options: Any) -> tuple[Recorder, Clock]:
    clock = Clock()
    return Recorder("run", clock, **options), clock


def set_replica(recorder: Recorder, topic: str = "t", number: int = 0, **fields: Any) -> None:
    known = {"topic": topic, "partition": number, "broker": 1}
    recorder.live.set("replicas", f"{topic}:{number}@1", {**known, **fields})


def as_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_a_frame_has_what_changed_and_nothing_else() -> None:
    recorder, _ = a_recorder()
    set_replica(recorder, log_end=1, durable=1)
    first = recorder.tick()
    assert first.changed["replicas"]["t:0@1"]["waiters"] is None  # a new entity comes whole
    set_replica(recorder, log_end=2, durable=1)
    second = recorder.tick()
    assert second.changed == {"replicas": {"t:0@1": {"log_end": 2}}}
    set_replica(recorder, log_end=2)
    assert recorder.tick().changed == {}


def test_a_change_is_told_once_for_each_frame() -> None:
    recorder, _ = a_recorder()
    told: list[int] = []
    recorder.on_change = lambda: told.append(1)
    set_replica(recorder, log_end=1)
    set_replica(recorder, log_end=2)
    recorder.live.event("server", "x")
    assert len(told) == 1
    recorder.tick()
    recorder.live.event("server", "y")
    assert len(told) == 2


def test_an_entity_that_leaves_and_comes_back_within_a_frame_is_whole() -> None:
    recorder, _ = a_recorder()
    set_replica(recorder, log_end=7, condition="damaged")
    recorder.tick()
    recorder.live.remove("replicas", "t:0@1")
    set_replica(recorder, log_end=1)
    delta = recorder.tick()
    assert delta.removed == {"replicas": ["t:0@1"]}
    assert delta.changed["replicas"]["t:0@1"]["condition"] is None
    state = recorder.at(ALL, frame=delta.frame).state
    assert as_json(state)["replicas"]["t:0@1"]["condition"] is None


ACTIONS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 30), st.sampled_from(["set", "remove", "frame"])),
    max_size=80,
)


@given(
    actions=ACTIONS,
    step_ms=st.sampled_from([10, 700, 12_000]),
    chunk=st.sampled_from([1, 2, 500]),
)
def test_every_kept_frame_gives_the_state_of_its_time(
    actions: list[tuple[int, int, str]], step_ms: int, chunk: int
) -> None:
    recorder, clock = a_recorder(bytes_max=40_000, kept_ms=60_000, chunk=chunk)
    states = {0: copy.deepcopy(recorder.live.maps)}
    for number, value, action in actions:
        if action == "set":
            set_replica(recorder, number=number, log_end=value)
        elif action == "remove":
            recorder.live.remove("replicas", f"t:{number}@1")
        else:
            clock.ms += step_ms
            frame = recorder.tick().frame
            states[frame] = copy.deepcopy(recorder.live.maps)
    oldest = next(frame for frame in states if recorder.has_all_after(frame))
    for frame, maps in states.items():
        if frame >= oldest:
            found = recorder.at(ALL, frame=frame)
            assert found.instant.frame == frame
            assert as_json(found.state)["replicas"] == as_json(maps["replicas"])
    merged = as_json(states[oldest])
    for delta in recorder.deltas_after(oldest, ALL):
        for key in delta.removed.get("replicas", ()):
            merged["replicas"].pop(key, None)
        for key, patch in delta.changed.get("replicas", {}).items():
            merged["replicas"].setdefault(key, {}).update(patch)
        assert merged["replicas"] == as_json(states[delta.frame]["replicas"])


def test_the_recording_stays_within_its_bytes() -> None:
    recorder, clock = a_recorder(bytes_max=200_000)
    for number in range(3_000):
        clock.ms += 50
        set_replica(recorder, number=number % 50, log_end=number * 7919, durable=number)
        recorder.tick()
        assert recorder.size <= 200_000 * 1.2
    oldest = recorder.now(ALL).instant.oldest_ms
    assert 1_000_000 < oldest < clock.ms - 5_000
    early = recorder.at(ALL, instant_ms=0)
    assert early.instant.at_ms == oldest


def test_an_instant_is_that_of_the_last_frame_before_it() -> None:
    recorder, clock = a_recorder()
    for end in (1, 2, 3):
        clock.ms += 1_000
        set_replica(recorder, log_end=end)
        recorder.tick()
    ends = [
        as_json(recorder.at(ALL, instant_ms=1_000_000 + ms).state)["replicas"]["t:0@1"]["log_end"]
        for ms in (1_000, 1_999, 2_000, 99_000)
    ]
    assert ends == [1, 1, 2, 3]


def test_a_clock_that_is_set_back_makes_no_instant_twice() -> None:
    recorder, clock = a_recorder()
    recorder.live.event("server", "x")
    clock.ms -= 10_000
    assert recorder.tick().at_ms == 1_000_000


def test_a_page_of_ten_thousand_partitions_gets_its_window() -> None:
    recorder, _ = a_recorder()
    for number in range(10_000):
        set_replica(recorder, number=number, log_end=number)
    recorder.tick()
    found = recorder.now(Scope(first=200, count=100))
    assert (found.window.first, found.window.count, found.window.total) == (200, 100, 10_000)
    assert sorted(found.state.replicas) == sorted(f"t:{n}@1" for n in range(200, 300))
    assert len(msgspec.json.encode(found)) < 200_000


def test_a_scope_by_text_and_by_name() -> None:
    recorder, _ = a_recorder()
    for topic in ("orders", "orders-2", "users"):
        set_replica(recorder, topic, 0)
    recorder.tick()
    by_text = recorder.now(Scope(text="orders"))
    assert sorted(by_text.state.replicas) == ["orders-2:0@1", "orders:0@1"]
    by_name = recorder.now(Scope(named=("users:0", "nothing:0")))
    assert list(by_name.state.replicas) == ["users:0@1"]


def test_events_stand_in_the_timeline_and_in_their_frame() -> None:
    recorder, clock = a_recorder()
    for number in range(5):
        recorder.live.event("topic", f"number {number}", topic="t")
        clock.ms += 100
        recorder.tick()
    found = recorder.timeline(1_000_200, 1_000_400, 2)
    assert [event.sentence for event in found.events] == ["number 1", "number 2"]
    assert found.more
    assert [e.sentence for e in recorder.events_before(1_000_200)] == ["number 1", "number 0"]


def server(recorder: Recorder, name: str, state: str = "watching") -> None:
    kind = "controller" if name == "controller" else "broker"
    node = 100 if kind == "controller" else int(name[-1])
    fields = {"id": name, "kind": kind, "node_id": node, "state": state}
    recorder.live.set("servers", name, new_entity("servers", fields))


def set_partition(recorder: Recorder, number: int, leader: int, isr: list[int]) -> None:
    fields = {"topic": "t", "partition": number, "leader": leader, "isr": isr}
    recorder.live.set("partitions", f"t:{number}", {**fields, "replicas": [1, 2, 3], "min_isr": 2})


def test_the_summary_is_unknown_without_the_controller() -> None:
    recorder, _ = a_recorder()
    server(recorder, "controller", "absent")
    set_partition(recorder, 0, 1, [1])
    recorder.measure()
    assert recorder.now(ALL).state.summary.under_replicated is None


def test_the_summary_counts() -> None:
    recorder, _ = a_recorder()
    server(recorder, "controller")
    set_partition(recorder, 10, 1, [1, 2, 3])
    set_partition(recorder, 9, 1, [1, 2])
    set_partition(recorder, 8, -1, [1])
    recorder.measure()
    summary = recorder.now(ALL).state.summary
    assert (summary.partitions, summary.under_replicated) == (3, 2)
    assert (summary.below_minimum, summary.offline) == (1, 1)
    assert summary.troubled == ["t:8", "t:9"]
    assert recorder.tick().summary == summary
    assert recorder.tick().summary is None


def test_rates_are_the_growth_of_the_leaders() -> None:
    recorder, clock = a_recorder()
    server(recorder, "broker-1")
    recorder.measure()
    recorder.growth.appended(500)
    recorder.growth.committed(100)
    clock.ms += 2_000
    recorder.measure()
    summary = recorder.now(ALL).state.summary
    assert (summary.records_per_s, summary.committed_per_s) == (250.0, 50.0)


@pytest.mark.parametrize(("state", "lag"), [("watching", 30), ("absent", None)])
def test_a_groups_lag_needs_the_leaders_watermark(state: str, lag: int | None) -> None:
    recorder, clock = a_recorder()
    server(recorder, "broker-1", state)
    server(recorder, "broker-2")
    set_replica(recorder, role="leader", leader_epoch=1, high_watermark=100)
    committed = {"offset": 70, "leader_epoch": 1, "at_ms": 5, "lag": None}
    recorder.live.set("groups", "g", {"id": "g", "coordinator": 2, "offsets": {"t:0": committed}})
    recorder.measure()
    group = as_json(recorder.now(ALL).state)["groups"]["g"]
    assert (group["lag"], group["offsets"]["t:0"]["lag"]) == (lag, lag)
    clock.ms += 2_000
    recorder.measure()
    recorder.tick()
    assert recorder.lag_between("g", 1_000_000, clock.ms).lags == [lag, None, lag]


def test_frames_are_of_the_types_that_pages_are_told() -> None:
    recorder, _ = a_recorder()
    server(recorder, "broker-1")
    recorder.live.set("servers", "broker-1", {"state_since_ms": 1})
    set_replica(recorder, role="leader", epochs=[[0, 0]])
    recorder.live.event("isr", "x", topic="t", partition=0)
    keyframe = recorder.now(ALL)
    delta = recorder.tick()
    assert msgspec.convert(as_json(keyframe), Keyframe).run == "run"
    assert msgspec.convert(as_json(delta), Delta).frame == 1
