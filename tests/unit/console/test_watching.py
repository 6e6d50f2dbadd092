"""Servers' frames become the recording; absent and older servers are named."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import grpc

from strandline_console.messages import Waiter
from strandline_console.recording.recorder import Recorder
from strandline_console.watching.broker_report import WAITERS
from strandline_console.watching.cluster_watch import ClusterWatch
from strandline_proto.v1 import watch_pb2
from support.hand_clock import HandClock
from support.scripted_watch import (
    ENDED,
    ScriptedCluster,
    broker_frame,
    controller_frame,
    followers,
    partition,
    replica,
    rpc_error,
    truncation,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Watched:
    """A recorder with the watch of a scripted cluster."""

    def __init__(self, cluster: ScriptedCluster, *, silence_s: float = 60) -> None:
        self.clock = HandClock()
        self.recorder = Recorder("run", lambda: int(self.clock.now_s * 1000))
        self.watch = ClusterWatch(
            ["b1:1"],
            self.recorder,
            ask=cluster,
            frames=cluster.frames,
            clock=self.clock,
            again_s=0.01,
            soon_s=0.01,
            silence_s=silence_s,
        )

    @property
    def maps(self) -> dict[str, dict[str, Any]]:
        return self.recorder.live.maps

    def server(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.maps["servers"].get(name, {})
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def until_state(self, server: str, state: str) -> None:
        await self.until(lambda: self.server(server).get("state") == state)

    def sentences(self) -> list[str]:
        self.recorder.tick()
        return [e.sentence for e in self.recorder.timeline(0, 2**53, 1_000).events]


@asynccontextmanager
async def watching(cluster: ScriptedCluster, **options: Any) -> AsyncIterator[Watched]:
    watched = Watched(cluster, **options)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watched.watch.run())
        try:
            yield watched
        finally:
            task.cancel()


KEY = "t:0@1"


async def test_a_keyframe_and_the_changes_after_it() -> None:
    cluster = ScriptedCluster()
    cluster.send("b1:1", broker_frame(1, replica(end=5, watermark=3, leader=True), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "watching")
        found = watched.maps["replicas"][KEY]
        assert (found["role"], found["log_end"], found["high_watermark"]) == ("leader", 5, 3)
        assert found["fetchers"] is None  # no part has said it
        cluster.send("b1:1", broker_frame(1, replica(followers=followers((2, 4)))))
        await watched.until(lambda: found["fetchers"] is not None)
        fetcher = watched.maps["replicas"][KEY]["fetchers"][0]
        assert (fetcher["fetch_offset"], fetcher["last_caught_up_ms"]) == (4, None)
        assert (found["log_end"], found["isr_committed"]) == (5, [1, 2, 3])  # unchanged parts


async def test_a_keyframe_in_parts_shows_nothing_before_its_end() -> None:
    cluster = ScriptedCluster()
    first = broker_frame(1, replica(end=5), keyframe=True, continues=True)
    cluster.send("b1:1", first)
    async with watching(cluster) as watched:
        await watched.until(lambda: "b1:1" in cluster.opened)
        for _ in range(20):
            await asyncio.sleep(0)
        assert watched.maps["replicas"] == {}
        cluster.send("b1:1", broker_frame(1, replica("u", end=6)))
        await watched.until_state("broker-1", "watching")
        assert sorted(watched.maps["replicas"]) == ["t:0@1", "u:0@1"]


async def test_a_new_keyframe_drops_what_it_does_not_have() -> None:
    cluster = ScriptedCluster()
    both = [replica(end=5), replica("u", end=6)]
    cluster.send("b1:1", broker_frame(1, *both, keyframe=True))
    cluster.send("c:1", controller_frame(partition(), partition("u"), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until(lambda: len(watched.maps["replicas"]) == 2)
        await watched.until(lambda: len(watched.maps["partitions"]) == 2)
        cluster.send("b1:1", broker_frame(1, replica("u", end=7), keyframe=True))
        cluster.send("c:1", controller_frame(partition(), keyframe=True))
        await watched.until(lambda: len(watched.maps["replicas"]) == 1)
        await watched.until(lambda: len(watched.maps["partitions"]) == 1)
        assert watched.maps["replicas"]["u:0@1"]["log_end"] == 7
        assert list(watched.maps["partitions"]) == ["t:0"]


async def test_a_replica_of_the_same_name_outlives_the_removal_of_its_forerunner() -> None:
    cluster = ScriptedCluster()
    cluster.send("b1:1", broker_frame(1, replica(end=5), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "watching")
        new = broker_frame(1, replica(topic_id=b"2", end=1))
        late = broker_frame(1, removed_replicas=[replica(topic_id=b"1")])
        cluster.send("b1:1", new, late, broker_frame(1, time_ms=2_000))
        await watched.until(lambda: watched.server("broker-1")["server_time_ms"] == 2_000)
        assert watched.maps["replicas"][KEY]["log_end"] == 1
        cluster.send("b1:1", broker_frame(1, removed_replicas=[replica(topic_id=b"2")]))
        await watched.until(lambda: watched.maps["replicas"] == {})


async def test_a_truncation_is_a_ghost_and_an_event_once_for_each_process() -> None:
    cluster = ScriptedCluster()
    event = truncation(
        4,
        9,
        6,
        reason=watch_pb2.TRUNCATION_REASON_HIGH_WATERMARK,
        acknowledged=True,
        dropped_epochs=[watch_pb2.EpochStart(epoch=2, start_offset=6)],
    )
    frame = broker_frame(1, replica(end=6), keyframe=True, events=[event])
    cluster.send("b1:1", frame, ENDED, frame)
    async with watching(cluster) as watched:
        await watched.until(lambda: cluster.opened.count("b1:1") == 2)
        await watched.until_state("broker-1", "watching")
        ghosts = watched.maps["replicas"][KEY]["ghosts"]
        assert [(g["start"], g["end"], g["acknowledged"]) for g in ghosts] == [(6, 9, True)]
        assert ghosts[0]["epochs"] == [[2, 6]]
        told = [s for s in watched.sentences() if "truncated" in s]
        assert told == [
            "broker 1 truncated t:0 from 9 to 6: replica.truncation=high-watermark",
        ]
        restarted = broker_frame(
            1, replica(end=6), incarnation="two", keyframe=True, events=[event]
        )
        cluster.send("b1:1", restarted)
        await watched.until(lambda: watched.server("broker-1")["incarnation"] == "two")
        assert len([s for s in watched.sentences() if "truncated" in s]) == 2


async def test_an_unknown_acknowledgement_stays_unknown() -> None:
    cluster = ScriptedCluster()
    events = [truncation(1, 9, 6), truncation(2, 6, 5, acknowledged=False)]
    cluster.send("b1:1", broker_frame(1, replica(end=5), keyframe=True, events=events))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "watching")
        ghosts = watched.maps["replicas"][KEY]["ghosts"]
        assert [ghost["acknowledged"] for ghost in ghosts] == [None, False]


async def test_a_broker_that_dies_is_absent_and_comes_back() -> None:
    cluster = ScriptedCluster()
    cluster.send("b2:1", broker_frame(2, replica(end=5), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-2", "watching")
        cluster.unreachable.add("b2:1")
        cluster.send("b2:1", rpc_error(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
        await watched.until_state("broker-2", "absent")
        assert watched.maps["replicas"]["t:0@2"]["log_end"] == 5  # the last report
        await watched.until(lambda: "refuses connections" in watched.server("broker-2")["reason"])
        cluster.unreachable.clear()
        cluster.send("b2:1", broker_frame(2, replica(end=9), incarnation="two", keyframe=True))
        await watched.until_state("broker-2", "watching")
        assert watched.maps["replicas"]["t:0@2"]["log_end"] == 9
        told = [s for s in watched.sentences() if "broker-2" in s]
        assert [s.partition(":")[0] for s in told] == [
            "the console watches broker-2",
            "broker-2 is absent",
            "the console watches broker-2",
        ]


async def test_a_silent_server_is_absent() -> None:
    cluster = ScriptedCluster()
    cluster.send("b1:1", broker_frame(1, keyframe=True))
    async with watching(cluster, silence_s=0.05) as watched:
        await watched.until(lambda: "broker-1 is absent" in " ".join(watched.sentences()))
        assert "has sent nothing for 0.05 s" in watched.server("broker-1")["reason"]


async def test_a_controller_that_has_moved_is_looked_up() -> None:
    cluster = ScriptedCluster()
    places = ["moved:1", "moved:2"]
    cluster.send("moved:1", controller_frame(partition(), keyframe=True))
    cluster.unreachable.add("c:1")

    async def find() -> str | None:
        return places[0]

    async with watching(cluster) as watched:
        watched.watch.find_controller = find
        await watched.until_state("controller", "watching")
        assert watched.server("controller")["address"] == "moved:1"
        cluster.unreachable.add("moved:1")
        places.pop(0)
        cluster.send("moved:1", ENDED)
        cluster.send("moved:2", controller_frame(partition("u"), keyframe=True))
        await watched.until(lambda: "u:0" in watched.maps["partitions"])


async def test_an_older_broker_is_named_and_the_rest_is_shown() -> None:
    cluster = ScriptedCluster()
    cluster.send("b1:1", rpc_error(grpc.StatusCode.UNIMPLEMENTED, "Method not found!"))
    cluster.send("b2:1", broker_frame(2, replica(end=5), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "without_watch")
        await watched.until_state("broker-2", "watching")
        assert "no Watch call" in watched.server("broker-1")["reason"]
        assert watched.server("broker-1")["build"] == "0.1.0+abc"


async def test_a_cluster_that_goes_away_leaves_its_last_state() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.send("b1:1", broker_frame(1, replica(end=5), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "watching")
        cluster.unreachable |= {"b1:1", "c:1"}
        cluster.send("b1:1", ENDED)
        await watched.until_state("broker-1", "absent")
        await watched.until(lambda: watched.watch.reason is not None)
        assert watched.watch.reason == "b1:1 refuses connections: nothing listens there"
        assert KEY in watched.maps["replicas"]


async def test_a_cluster_that_does_not_exist_has_a_reason() -> None:
    cluster = ScriptedCluster()
    cluster.unreachable.add("b1:1")
    async with watching(cluster) as watched:
        await watched.until(lambda: "refuses" in (watched.watch.reason or ""))
        assert not watched.watch.found.is_set()


async def test_another_server_at_the_address_is_named() -> None:
    cluster = ScriptedCluster()
    cluster.send("b1:1", broker_frame(3, keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("broker-1", "absent")
        assert watched.server("broker-1")["reason"] == (
            "broker-3 answers at b1:1, which is the address of broker-1"
        )


async def test_a_broker_that_joins_is_found() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.send("c:1", controller_frame(partition(), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until_state("controller", "watching")
        cluster.brokers.append(2)
        state = watch_pb2.BrokerRegistrationState(fenced=True, rack="r", broker_epoch=7)
        broker = watch_pb2.RegisteredBroker(broker_id=2, registration=state)
        cluster.send("c:1", controller_frame(registered_brokers=[broker]))
        await watched.until(lambda: watched.server("broker-2").get("fenced") is True)
        assert watched.server("broker-2")["rack"] == "r"


async def test_a_partition_without_a_leader_is_offline_and_not_unknown() -> None:
    cluster = ScriptedCluster()
    cluster.send("c:1", controller_frame(partition(leader=None), keyframe=True))
    async with watching(cluster) as watched:
        await watched.until(lambda: "t:0" in watched.maps["partitions"])
        assert watched.maps["partitions"]["t:0"]["leader"] == -1


def group(**fields: Any) -> watch_pb2.WatchedGroup:
    return watch_pb2.WatchedGroup(group_id="g", coordinator_epoch=3, **fields)


async def test_a_group_moves_to_another_coordinator() -> None:
    cluster = ScriptedCluster()
    commit = watch_pb2.WatchedCommit(topic="t", partition=0, offset=7)
    other = watch_pb2.WatchedCommit(topic="t", partition=1, offset=8)
    cluster.send("b1:1", broker_frame(1, groups=[group(commits=[commit])], keyframe=True))
    cluster.send("b2:1", broker_frame(2, keyframe=True))
    async with watching(cluster) as watched:
        await watched.until(lambda: "g" in watched.maps["groups"])
        cluster.send("b1:1", broker_frame(1, groups=[group(commits=[other])]))
        await watched.until(lambda: len(watched.maps["groups"]["g"]["offsets"]) == 2)
        cluster.send("b2:1", broker_frame(2, groups=[group(commits=[commit])]))
        await watched.until(lambda: watched.maps["groups"]["g"]["coordinator"] == 2)
        cluster.send("b1:1", broker_frame(1, removed_groups=["g"], time_ms=5))
        await watched.until(lambda: watched.server("broker-1")["server_time_ms"] == 5)
        assert list(watched.maps["groups"]["g"]["offsets"]) == ["t:0"]
        cluster.send("b2:1", broker_frame(2, removed_groups=["g"]))
        await watched.until(lambda: watched.maps["groups"] == {})


async def test_a_full_disk_is_an_event() -> None:
    cluster = ScriptedCluster()

    def status(state: watch_pb2.WatchedDirectoryState.ValueType, why: str) -> Any:
        directory = watch_pb2.WatchedDirectory(path="/d", state=state, why=why)
        return watch_pb2.BrokerStatus(directories=[directory], produced_records=10)

    ok = status(watch_pb2.WATCHED_DIRECTORY_STATE_OK, "")
    full = status(watch_pb2.WATCHED_DIRECTORY_STATE_FULL, "no space left")
    cluster.send("b1:1", broker_frame(1, broker=ok, keyframe=True), broker_frame(1, broker=full))
    async with watching(cluster) as watched:
        await watched.until(
            lambda: (
                (watched.server("broker-1").get("directories") or [{}])[0].get("reason")
                == "no space left"
            )
        )
        told = [s for s in watched.sentences() if s.startswith("directory")]
        assert told == ["directory /d of broker 1 is full: no space left"]


async def test_rates_come_from_the_totals_of_two_frames() -> None:
    cluster = ScriptedCluster()
    for time_ms, records in ((1_000, 100), (3_000, 500)):
        status = watch_pb2.BrokerStatus(produced_records=records)
        cluster.send(
            "b1:1", broker_frame(1, broker=status, time_ms=time_ms, keyframe=time_ms < 2e3)
        )
    async with watching(cluster) as watched:
        await watched.until(lambda: watched.server("broker-1").get("records_per_s") is not None)
        assert watched.server("broker-1")["records_per_s"] == 200.0
        assert watched.server("broker-1")["bytes_in_per_s"] is None  # the broker does not count it


async def test_the_controllers_events_are_sentences() -> None:
    cluster = ScriptedCluster()
    election = watch_pb2.ElectionEvent(
        topic="t",
        partition=0,
        former_leader=1,
        leader_id=2,
        leader_epoch=5,
        reason=watch_pb2.ELECTION_REASON_BROKER_FENCED,
        broker_id=1,
    )
    isr = watch_pb2.IsrEvent(topic="t", partition=0, former_isr=[1, 2, 3], isr=[2, 3])
    fenced = watch_pb2.BrokerEvent(
        broker_id=1, kind=watch_pb2.BROKER_EVENT_KIND_FENCED, why="its session expired"
    )
    events = [
        watch_pb2.WatchEvent(number=1, time_ms=1_000, broker=fenced),
        watch_pb2.WatchEvent(number=2, time_ms=1_000, election=election),
        watch_pb2.WatchEvent(number=3, time_ms=1_000, isr=isr),
    ]
    cluster.send("c:1", controller_frame(keyframe=True), controller_frame(events=events))
    async with watching(cluster) as watched:
        await watched.until_state("controller", "watching")
        await watched.until(lambda: len(watched.sentences()) >= 4)
        told = watched.sentences()
        assert "broker 1 was fenced: its session expired" in told
        assert "broker 2 leads t:0 in epoch 5: broker 1 was fenced" in told
        assert "the ISR of t:0 is [2, 3], was [1, 2, 3]" in told


def test_each_kind_of_waiter_has_a_name_on_the_page() -> None:
    named = {kind for kind in watch_pb2.WaiterKind.values() if kind != 0}
    assert named == set(WAITERS)
    assert set(WAITERS.values()) == set(get_args(get_type_hints(Waiter)["kind"]))
