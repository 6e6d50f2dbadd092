"""The watch of a whole cluster: finds its servers, watches each, and shows the absent ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from strandline_console.watching.broker_report import BrokerReport
from strandline_console.watching.controller_report import ControllerReport
from strandline_console.watching.discovery import AskByChannel, discover
from strandline_console.watching.server_watch import SILENCE_S, ServerWatch
from strandline_proto.v1 import services_pb2_grpc, watch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from strandline_console.recording.recorder import Recorder
    from strandline_console.watching.discovery import Ask, Found, KnownServer
    from strandline_console.watching.server_watch import Frames
    from strandline_runtime.runtime import Clock, Network

AGAIN_S: Final = 5.0
SOON_S: Final = 0.5
"""Time until discovery is repeated after a server was lost, or while none was ever found."""


class FindController(Protocol):
    """Returns the controller's address; None if it is not known."""

    async def __call__(self) -> str | None: ...


class FramesByChannel:
    """Opens streams, each over a channel of its own."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def __call__(self, address: str) -> AsyncGenerator[watch_pb2.WatchResponse]:
        async with self._network.channel(address) as channel:
            stub = services_pb2_grpc.WatchServiceStub(channel)
            async for frame in stub.Watch(watch_pb2.WatchRequest()):
                yield frame


class ClusterWatch:
    """Watches the cluster at `bootstrap` into a recorder."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        recorder: Recorder,
        *,
        ask: Ask,
        frames: Frames,
        clock: Clock,
        again_s: float = AGAIN_S,
        soon_s: float = SOON_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._recorder = recorder
        self._live = recorder.live
        self._ask = ask
        self._frames = frames
        self._clock = clock
        self._again_s = again_s
        self._soon_s = soon_s
        self._silence_s = silence_s
        self._addresses: dict[str, str | None] = {}
        self._watches: dict[str, ServerWatch] = {}
        self._controller = ControllerReport(self._live, self._on_broker)
        self._lost = asyncio.Event()
        self.found = asyncio.Event()
        """Set once the servers of the cluster are known."""
        self.find_controller: FindController | None = None
        """Asked for the controller's address from here, until the controller is watched."""
        self._controller_address: str | None = None
        self.cluster_id: str | None = None
        self.reason: str | None = "no broker has answered yet"
        """Why no server is known; None once the cluster was found."""

    async def run(self) -> None:
        """Watch until the task is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                found = await discover(self._ask, self.brokers())
                await self._find_controller()
                self._take(found, tasks)
                self._lost.clear()
                wait_s = self._again_s if found.servers else self._soon_s
                try:
                    async with asyncio.timeout(wait_s):
                        await self._lost.wait()
                    # Many servers may be lost at once, and the controller needs its time.
                    await asyncio.sleep(self._soon_s)
                except TimeoutError:
                    pass

    async def _find_controller(self) -> None:
        controller = self._live.maps["servers"].get("controller")
        watched = controller is not None and controller["state"] == "watching"
        if self.find_controller is not None and not watched:
            self._controller_address = await self.find_controller() or self._controller_address

    def brokers(self) -> list[str]:
        """Addresses of brokers to ask, those of watched brokers first."""
        known = [
            address
            for server, address in self._addresses.items()
            if server != "controller" and address is not None
        ]
        servers = self._live.maps["servers"]
        watched = [
            address
            for server, address in self._addresses.items()
            if address is not None
            and server != "controller"
            and servers[server]["state"] == "watching"
        ]
        return list(dict.fromkeys([*watched, *self._bootstrap, *known]))

    def _take(self, found: Found, tasks: asyncio.TaskGroup) -> None:
        if not found.servers:
            self.reason = found.reason
            return
        self.reason = None
        self.found.set()
        self.cluster_id = found.cluster_id or self.cluster_id
        for server in found.servers:
            self._take_server(server, tasks)

    def _take_server(self, server: KnownServer, tasks: asyncio.TaskGroup) -> None:
        before = self._addresses.get(server.id)
        self._addresses[server.id] = server.address or before
        if server.id == "controller" and self._controller_address is not None:
            self._addresses[server.id] = self._controller_address
        if server.id in self._watches:
            if server.build is not None:
                self._live.set("servers", server.id, {"build": server.build})
            if self._addresses[server.id] != before:
                self._watches[server.id].wake()
            return
        is_controller = server.id == "controller"
        self._live.set(
            "servers",
            server.id,
            {
                "id": server.id,
                "kind": "controller" if is_controller else "broker",
                "node_id": server.node_id,
                "address": server.address,
                "state": "connecting",
                "state_since_ms": int(self._clock.time() * 1000),
                **self._controller.fields_of(server.id),
                "build": server.build,
            },
        )
        report: BrokerReport | ControllerReport
        if is_controller:
            report = self._controller
        else:
            report = BrokerReport(self._live, self._recorder.growth, server.node_id)
        watch = ServerWatch(
            server.id,
            lambda: self._addresses[server.id],
            report,
            live=self._live,
            frames=self._frames,
            clock=self._clock,
            on_lost=self._lost.set,
            silence_s=self._silence_s,
        )
        self._watches[server.id] = watch
        tasks.create_task(watch.run(), name=f"watch {server.id}")

    def _on_broker(self, broker_id: int) -> None:
        """The controller names a broker: a new one is looked up, a known one is tried at once."""
        watch = self._watches.get(f"broker-{broker_id}")
        if watch is None:
            self._lost.set()
        else:
            watch.wake()


def watch_cluster(
    bootstrap: Sequence[str], recorder: Recorder, network: Network, clock: Clock
) -> ClusterWatch:
    """The watch of a real cluster."""
    return ClusterWatch(
        bootstrap,
        recorder,
        ask=AskByChannel(network.channel),
        frames=FramesByChannel(network),
        clock=clock,
    )
