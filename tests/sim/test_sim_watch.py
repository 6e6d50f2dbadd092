"""A watcher of a simulated broker that is killed and returns: by the simulation's clock alone."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import grpc

from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import BROKER_PORT, Topology
from strandline_proto.v1 import services_pb2_grpc, watch_pb2

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_runtime.runtime import Runtime

WATCHED = "broker-1"
WATCHED_S = 3.0
PAUSE_S = 0.05


class WatchedRun(Run):
    """A run with a watcher beside its clients; each stream is a list of frames."""

    streams: list[list[watch_pb2.WatchResponse]]

    async def _main(self) -> None:
        self.streams = []
        self.nemesis.scene.run_client("watcher", self._watch)
        await super()._main()

    async def _watch(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + WATCHED_S
        while loop.time() < until_s:
            channel = runtime.network.channel(f"{WATCHED}:{BROKER_PORT}")
            frames: list[watch_pb2.WatchResponse] = []
            self.streams.append(frames)
            try:
                call: Any = services_pb2_grpc.WatchServiceStub(channel).Watch(
                    watch_pb2.WatchRequest(), timeout=until_s - loop.time()
                )
                async for frame in call:
                    frames.append(frame)
            except grpc.RpcError:
                await asyncio.sleep(PAUSE_S)
            finally:
                await channel.close()


def test_a_watcher_sees_both_incarnations_and_disturbs_nothing() -> None:
    faults = (Fault(1.5, "kill", {"node": WATCHED, "restart_s": 0.5}),)
    run = WatchedRun(Plan(seed=11, topology=Topology(partitions=2), faults=faults, chaos_s=3))
    outcome = run.execute()
    assert outcome.failure is None, outcome.timeline.text()
    streams = [frames for frames in run.streams if frames]
    incarnations = [{frame.incarnation_id for frame in frames} for frames in streams]
    assert len(set().union(*incarnations)) == 2
    for frames in streams:
        assert frames[0].keyframe
        assert [frame.sequence for frame in frames] == [*range(1, len(frames) + 1)]
        whole = [frame for frame in frames if not frame.continues]
        for before, after in pairwise(whole):
            assert after.time_ms - before.time_ms >= 49, "at most 20 frames a second"
    ends = {
        replica.offsets.log_end
        for frames in streams
        for frame in frames
        for topic in frame.replicas
        for replica in topic.replicas
    }
    assert max(ends) > 0, "records were seen"
