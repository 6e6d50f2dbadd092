"""Ten thousand partitions: the work between two turns of the event loop does not grow with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from strandline_console.recording import archive
from strandline_console.recording.archive import CHUNK
from strandline_console.recording.entities import Entity, new_entity, order_on_board
from strandline_console.recording.figures import STEP
from strandline_console.recording.recorder import Recorder
from strandline_console.recording.scope import ALL, Scope
from strandline_console.serving.pulse import Pulse
from strandline_console.watching.broker_report import BrokerReport
from strandline_console.watching.server_watch import ServerWatch
from support.hand_clock import HandClock
from support.scripted_watch import broker_frame, replica

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pytest

    from strandline_console.recording.live import Live
    from strandline_proto.v1 import watch_pb2

PARTITIONS = 10_000


class CountedReads(dict[str, Entity]):
    """Counts the entities that are read; a walk counts each of them."""

    reads = 0

    def __getitem__(self, key: str) -> Entity:
        self.reads += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)

    def __iter__(self) -> Any:
        self.reads += len(self)
        return super().__iter__()

    def keys(self) -> Any:
        self.reads += len(self)
        return super().keys()

    def values(self) -> Any:
        self.reads += len(self)
        return super().values()

    def items(self) -> Any:
        self.reads += len(self)
        return super().items()


def a_partition(number: int, isr: list[int]) -> Entity:
    known = {"topic": "t", "partition": number, "leader": 1, "min_isr": 2}
    return {**known, "replicas": [1, 2, 3], "isr": isr}


def a_large_recorder() -> tuple[Recorder, CountedReads, CountedReads]:
    """A recorder that counts the reads of its partitions and replicas."""
    recorder = Recorder("run", lambda: 1_000_000)
    server = new_entity("servers", {"id": "controller", "kind": "controller", "node_id": 100})
    recorder.live.set("servers", "controller", {**server, "state": "watching"})
    partitions, replicas = CountedReads(), CountedReads()
    recorder.live.maps |= {"partitions": partitions, "replicas": replicas}
    for number in range(PARTITIONS):
        recorder.live.set("partitions", f"t:{number}", a_partition(number, [1, 2, 3]))
        fields = {"topic": "t", "partition": number, "broker": 1}
        recorder.live.set("replicas", f"t:{number}@1", fields)
    partitions.reads = replicas.reads = 0
    return recorder, partitions, replicas


def test_the_summary_reads_no_partition() -> None:
    recorder, partitions, replicas = a_large_recorder()
    recorder.measure()
    assert recorder.now(ALL).state.summary.partitions == PARTITIONS
    partitions.reads = 0
    for number in range(7):
        recorder.live.set("partitions", f"t:{number}", a_partition(number, [1]))
    assert partitions.reads == 7  # each change reads what it changes
    recorder.measure()
    assert (partitions.reads, replicas.reads) == (7, 0)
    summary = recorder.now(Scope(count=1)).state.summary
    assert (summary.under_replicated, summary.below_minimum, summary.offline) == (7, 7, 0)
    assert summary.troubled == [f"t:{number}" for number in range(7)]


def test_a_page_reads_the_partitions_of_its_window() -> None:
    recorder, partitions, replicas = a_large_recorder()
    found = recorder.now(Scope(first=200, count=100))
    assert found.window.total == PARTITIONS
    assert set(found.state.partitions) == {f"t:{number}" for number in range(200, 300)}
    assert (partitions.reads, replicas.reads) == (100, 100)


def test_a_frame_encodes_its_changes_and_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1_000_000
    recorder = Recorder("run", lambda: now_ms)
    encoded: list[int] = []
    encode = msgspec.json.Encoder().encode

    def counting(value: Any) -> bytes:
        maps = value if isinstance(value, dict) else value.changed
        encoded.append(sum(map(len, maps.values())))
        return encode(value)

    monkeypatch.setattr(archive, "_encode", counting)
    for number in range(PARTITIONS):
        known = {"topic": "t", "partition": number, "broker": 1, "log_end": 0}
        recorder.live.set("replicas", f"t:{number}@1", known)
    recorder.tick()
    most = 0
    for number in range(3 * PARTITIONS // CHUNK):
        now_ms += 10_000
        recorder.live.set("replicas", f"t:{number}@1", {"log_end": number})
        encoded.clear()
        recorder.tick()
        most = max(most, sum(encoded))
    assert most == CHUNK + 1
    assert recorder.has_all_after(0)
    early, late = (recorder.at(ALL, frame=frame).state for frame in (10, recorder.frame))
    assert msgspec.json.decode(encode(late))["replicas"]["t:59@1"]["log_end"] == 59
    assert msgspec.json.decode(encode(early))["replicas"]["t:59@1"]["log_end"] == 0


async def test_a_brokers_first_report_leaves_turns_to_the_loop() -> None:
    clock = HandClock()
    recorder = Recorder("run", lambda: 1_000_000)
    fields = {"id": "broker-1", "kind": "broker", "node_id": 1, "state": "connecting"}
    recorder.live.set("servers", "broker-1", fields)
    parts = [
        broker_frame(
            1,
            *(replica(f"t{part}-{n}", end=5) for n in range(500)),
            keyframe=part == 0,
            continues=part < 19,
        )
        for part in range(20)
    ]

    async def frames(address: str) -> AsyncGenerator[watch_pb2.WatchResponse]:
        assert address == "b1:1"
        for part in parts:
            yield part
        await asyncio.Event().wait()

    watch = ServerWatch(
        "broker-1",
        lambda: "b1:1",
        BrokerReport(recorder.live, recorder.growth, 1),
        live=recorder.live,
        frames=frames,
        clock=clock,
        on_lost=lambda: None,
    )
    task = asyncio.create_task(watch.run())
    known, steps = 0, []
    async with asyncio.timeout(60):
        while known < PARTITIONS:
            await asyncio.sleep(0)
            steps.append(len(recorder.live.maps["replicas"]) - known)
            known += steps[-1]
    task.cancel()
    assert max(steps) == 500


def a_group(live: Live, partitions: int) -> None:
    committed = {"offset": 1, "leader_epoch": 0, "at_ms": 5, "lag": None}
    offsets = {f"t:{number}": dict(committed) for number in range(partitions)}
    live.set("groups", "g", {"id": "g", "coordinator": 1, "offsets": offsets})


def test_the_lag_of_a_large_group_is_computed_in_steps() -> None:
    recorder = Recorder("run", lambda: 1_000_000)
    a_group(recorder.live, 4 * STEP)
    assert sum(1 for _ in recorder.measuring()) == 1 + 4


def test_a_commit_between_the_steps_is_kept() -> None:
    recorder = Recorder("run", lambda: 1_000_000)
    a_group(recorder.live, 2 * STEP)
    steps = recorder.measuring()
    next(steps), next(steps)
    a_group(recorder.live, 1)
    for _ in steps:
        pass
    assert list(recorder.live.maps["groups"]["g"]["offsets"]) == ["t:0"]


async def test_frames_go_on_while_figures_are_computed() -> None:
    """The pulse has a turn after each step: the loop is never held for a whole measure."""
    clock = HandClock()
    recorder = Recorder("run", lambda: 1_000_000)
    a_group(recorder.live, 8 * STEP)
    pulse = Pulse(recorder, clock.monotonic)
    task = asyncio.create_task(pulse.run())
    turns = 0
    async with asyncio.timeout(60):
        while recorder.lag_between("g", 1_000_000, 1_000_000).lags == [None]:
            turns += 1
            await asyncio.sleep(0)
            if turns > 8:
                break
    task.cancel()
    assert turns > 8


def test_the_board_is_in_order_whatever_comes_and_leaves() -> None:
    recorder = Recorder("run", lambda: 1_000_000)
    live = recorder.live
    for topic in ("__x", "b", "a"):
        for number in (10, 9, 2):
            fields = {"topic": topic, "partition": number, "broker": 1}
            live.set("replicas", f"{topic}:{number}@1", fields)
    live.set("partitions", "a:9", a_partition(9, [1]))
    live.remove("replicas", "a:9@1")  # the controller still knows it
    live.remove("replicas", "b:2@1")
    assert recorder.ordered == sorted(recorder.ordered, key=order_on_board)
    assert recorder.ordered == ["a:2", "a:9", "a:10", "b:9", "b:10", "__x:2", "__x:9", "__x:10"]
    live.remove("partitions", "a:9")
    assert "a:9" not in recorder.ordered
    recorder.measure()
    assert recorder.now(ALL).state.summary.troubled == []
