"""Strikes by misbehaving clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import BROKER_PORT
from strandline_proto.v1 import produce_pb2, services_pb2_grpc

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.replica.log_view import Entry
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

ECHO: Final = "echo"
ACKS_ALL: Final = -1
ANSWER_MS: Final = 1000


class ClientStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {"resend": self._resend}

    def _resend(self, partition: int, back: int, times: int) -> bool:
        """Sends an appended batch once more, as a request that a network has kept (P-41, P-80)."""
        scene = self._scene
        found = self._batch(partition, back)
        if found is None or scene.is_busy(ECHO):
            return False
        leader, key, entry, records = found

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            try:
                await self._send(runtime, leader, key, entry, records, times)
            except (grpc.RpcError, TimeoutError):
                scene.oracles.sometimes["resent in vain"] += 1

        scene.run_client(ECHO, main)
        return True

    def _batch(self, index: int, back: int) -> tuple[str, Key, Entry, bytes] | None:
        """The leader, the partition, the batch `back` before its last, and its bytes."""
        scene, control = self._scene, self._scene.oracles.control
        for key in control.main_keys():
            member = scene.world.members.get(control.partitions[key].leader)
            leader = "" if member is None else member.name
            view = scene.oracles.replicas.find_view(leader, key)
            if key[1] != index or view is None or len(view.entries) <= back:
                continue
            number = len(view.entries) - 1 - back
            if view.entries[number].base < scene.oracles.replicas.ghost(key).begins:
                return None  # a leader without the batch cannot recognize it
            records = view.bytes_of(number)
            return (leader, key, view.entries[number], records) if records else None
        return None

    async def _send(
        self, runtime: Runtime, leader: str, key: Key, entry: Entry, records: bytes, times: int
    ) -> None:
        channel = runtime.network.channel(f"{leader}:{BROKER_PORT}")
        try:
            stub = services_pb2_grpc.BrokerServiceStub(channel)
            call: Any = stub.Produce(timeout=3 * ANSWER_MS / 1000)
            for number in range(times):
                request = produce_pb2.ProduceRequest(
                    acks=ACKS_ALL, timeout_ms=ANSWER_MS, correlation_id=number
                )
                data = request.topics.add(topic_id=key[0]).partitions
                data.add(index=key[1], records=records)
                await call.write(request)
            for _ in range(times):
                answer = await call.read()
                if not isinstance(answer, produce_pb2.ProduceResponse):
                    return
                ghost = self._scene.oracles.replicas.ghost(key)
                if ghost.permitted is None and not ghost.lost:
                    self._check(answer.topics[0].partitions[0], entry)
            call.cancel()
        finally:
            await channel.close()

    def _check(self, result: produce_pb2.PartitionProduceResult, entry: Entry) -> None:
        """I-55: the leader recognizes the repetition, or does not acknowledge it."""
        if result.error_code != 0:
            self._scene.oracles.sometimes["resent batch refused"] += 1
            return
        self._scene.oracles.sometimes["resent batch known"] += 1
        if result.base_offset not in (entry.base, -1):
            self._scene.world.loop.fail(
                Violation(
                    "I-55",
                    f"a batch that stands at offset {entry.base} was sent again and acknowledged at"
                    f" {result.base_offset}",
                )
            )
