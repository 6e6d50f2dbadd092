"""The fast path of failure detection (P-81).

A broken heartbeat stream is a hint. The detector asks the broker's inter-broker listener at once
which process answers:

- A refused connection, or another process at that address, proves the broker dead. It is fenced.
- Any other outcome only shortens the broker's session. Silence is left to the session's end.

A verdict counts only for the stream that broke. It is dropped if the broker has a newer stream or
has registered again.

A controller that starts has no stream to a broker that died while the controller was down. So it
asks each broker that does not call within half a second. A silent broker keeps its session here,
because no stream broke.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Final, Protocol

import grpc

from strandline_runtime.runtime import Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.hosts.controller.broker_calls import Dial
    from strandline_proto.ids import BrokerEpoch, BrokerId
    from strandline_runtime.runtime import Runtime

PROBE_TIMEOUT_S: Final = 1.0
CALL_S: Final = 0.5
"""Time within which a live broker calls a restarted controller; most need a tenth of it."""
PAUSES_S: Final = (0.0, 0.03, 0.06, 0.12, 0.25, 0.5)
"""Pauses before the attempts. A dying process may still accept connections for a moment after its
streams broke.
"""
NEVER_CALLED: Final = 0
"""The generation of a broker without a heartbeat stream so far."""


class Liveness(enum.Enum):
    DEAD = "dead"
    ALIVE = "alive"
    UNKNOWN = "unknown"


class Judged(Protocol):
    """The detector's verdicts, which the controller carries out."""

    def shorten_session(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None: ...

    async def fence_dead(
        self, broker_id: BrokerId, epoch: BrokerEpoch, still_broken: Callable[[], bool]
    ) -> None: ...


class FailureDetector:
    def __init__(self, runtime: Runtime, judged: Judged, dial: Dial, *, cluster_id: str) -> None:
        self._runtime = runtime
        self._dial = dial
        self._judged = judged
        self._cluster_id = cluster_id
        self._generations: dict[BrokerId, int] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, inherited: Iterable[Broker] = ()) -> None:
        """Hold the investigations until cancelled. `inherited` are brokers that registered with an
        earlier controller and have not called yet.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for broker in inherited:
                tasks.create_task(self._expect_call(broker))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def on_stream_opened(self, broker_id: BrokerId) -> int:
        """Count a heartbeat stream's first message; its generation supersedes earlier ones."""
        generation = self._generations.get(broker_id, NEVER_CALLED) + 1
        self._generations[broker_id] = generation
        return generation

    def on_stream_ended(self, broker: Broker, generation: int) -> None:
        if self._tasks is not None and self._generations.get(broker.broker_id) == generation:
            self._judged.shorten_session(broker.broker_id, broker.epoch)
            self._tasks.create_task(self._investigate(broker, generation))

    async def _expect_call(self, broker: Broker) -> None:
        await asyncio.sleep(CALL_S)
        await self._investigate(broker, generation=NEVER_CALLED)

    async def _investigate(self, broker: Broker, generation: int) -> None:
        broker_id, epoch = broker.broker_id, broker.epoch

        def still_broken() -> bool:
            return self._generations.get(broker_id, NEVER_CALLED) == generation

        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            if not still_broken():
                return
            liveness = await self._ask(broker)
            if liveness is Liveness.ALIVE:
                return
            if liveness is Liveness.DEAD:
                await self._judged.fence_dead(broker_id, epoch, still_broken)
                return

    async def _ask(self, broker: Broker) -> Liveness:
        """Ask the process at the broker's address. A network error of any kind proves nothing, and
        does not stop other investigations.
        """
        try:
            return await self._identified(broker)
        except Exception as error:  # noqa: BLE001 - one broker's address must not end the controller
            self._runtime.log.warning(
                "a broker cannot be asked", broker=broker.broker_id, why=str(error)
            )
            return Liveness.UNKNOWN

    async def _identified(self, broker: Broker) -> Liveness:
        endpoint = broker.inter_broker_endpoint
        probe = await self._runtime.network.probe(endpoint.host, endpoint.port, PROBE_TIMEOUT_S)
        if probe is Probe.REFUSED:
            return Liveness.DEAD
        if probe is Probe.SILENT:
            return Liveness.UNKNOWN
        channel = self._dial(broker)
        try:
            found = await channel.identify(timeout_s=PROBE_TIMEOUT_S)
        except grpc.RpcError:
            return Liveness.UNKNOWN
        finally:
            await channel.close()
        same = (
            found.cluster_id == self._cluster_id
            and found.broker_id == broker.broker_id
            and found.incarnation_id == broker.incarnation_id
        )
        return Liveness.ALIVE if same else Liveness.DEAD
