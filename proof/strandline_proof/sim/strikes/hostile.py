"""A client whose batches contradict their records, each under a right CRC."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import grpc
from crc32c import crc32c

from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import BROKER_PORT
from strandline_proto.batch import HEADER_SIZE, Compression, build_batch
from strandline_proto.errors import InvalidRecord, InvalidTimestamp
from strandline_proto.v1 import produce_pb2, services_pb2_grpc

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

LIAR: Final = "liar"
ANSWER_MS: Final = 1000
DAY_MS: Final = 86_400_000
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LAST_DELTA_AT: Final = 23
_LARGEST_TIMESTAMP_AT: Final = 35
_COUNT_AT: Final = 57
_DELTA_AT: Final = HEADER_SIZE + 3
"""Position of the offset delta, behind length, attributes and timestamp delta, of a byte each."""


def hostile_batch(lie: str, now_ms: int) -> bytes:
    """A batch that no reader could read, or whose times would retain it for ever."""
    codec = Compression.LZ4 if lie == "zipped" else Compression.NONE
    timestamp_ms = now_ms + 2 * DAY_MS if lie == "future" else now_ms
    batch = bytearray(build_batch([(b"k", b"a lie")], timestamp_ms=timestamp_ms, compression=codec))
    if lie == "noise":
        batch[HEADER_SIZE:] = b"\xb5" * (len(batch) - HEADER_SIZE)
    elif lie in ("count", "zipped"):
        struct.pack_into(">i", batch, _LAST_DELTA_AT, 2)
        struct.pack_into(">i", batch, _COUNT_AT, 3)
    elif lie == "delta":
        batch[_DELTA_AT] = 2
    elif lie == "largest":
        struct.pack_into(">q", batch, _LARGEST_TIMESTAMP_AT, 1 << 62)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return bytes(batch)


class HostileStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {"hostile-batch": self._send}

    def _send(self, partition: int, lie: str) -> bool:
        """Sends a batch that must not be acknowledged (I-98). The last look at the logs checks that
        no log has it.
        """
        scene = self._scene
        found = self._leader_of(partition)
        if found is None or scene.is_busy(LIAR):
            return False
        leader, key = found

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            batch = hostile_batch(lie, int(runtime.clock.time() * 1000))
            try:
                await self._produce(runtime, leader, key, batch, lie)
            except (grpc.RpcError, TimeoutError):
                scene.oracles.sometimes["lied in vain"] += 1

        scene.run_client(LIAR, main)
        return True

    def _leader_of(self, index: int) -> tuple[str, Key] | None:
        scene, control = self._scene, self._scene.oracles.control
        for key in control.main_keys():
            member = scene.world.members.get(control.partitions[key].leader)
            if key[1] == index and member is not None:
                return member.name, key
        return None

    async def _produce(
        self, runtime: Runtime, leader: str, key: Key, batch: bytes, lie: str
    ) -> None:
        channel = runtime.network.channel(f"{leader}:{BROKER_PORT}")
        try:
            stub = services_pb2_grpc.BrokerServiceStub(channel)
            call: Any = stub.Produce(timeout=3 * ANSWER_MS / 1000)
            request = produce_pb2.ProduceRequest(acks=1, timeout_ms=ANSWER_MS)
            data = request.topics.add(topic_id=key[0]).partitions
            data.add(index=key[1], records=batch)
            await call.write(request)
            answer = await call.read()
            if isinstance(answer, produce_pb2.ProduceResponse):
                self._check(answer.topics[0].partitions[0], lie)
            call.cancel()
        finally:
            await channel.close()

    def _check(self, result: produce_pb2.PartitionProduceResult, lie: str) -> None:
        if result.error_code == 0:
            what = f"a batch that lies ({lie}) was appended at offset {result.base_offset}"
            self._scene.world.loop.fail(Violation("I-98", what))
        told = result.error_code in (InvalidRecord.code, InvalidTimestamp.code)
        self._scene.oracles.sometimes["lie refused" if told else "lie refused for another"] += 1
