"""Damage in one replica's log: not served, healed from the leader, reported where it is the only
copy. The test is the controller.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.storage.log.segment_check import check_segment
from strandline_proto.batch import build_batch, crc_matches, iter_headers, read_header
from strandline_proto.errors import KafkaStorageError
from strandline_proto.v1 import produce_pb2, services_pb2_grpc
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.core.replication.partition_state import PartitionState

SMALL = {"log_segment_bytes": "300"}
VALUE = b"v" * 80


async def produce(node: Node, count: int) -> None:
    async with grpc.aio.insecure_channel(node.target) as channel:
        stream = services_pb2_grpc.BrokerServiceStub(channel).Produce()
        for i in range(count):
            request = produce_pb2.ProduceRequest(acks=-1, timeout_ms=5000, correlation_id=i)
            records = build_batch([(None, b"%d" % i), (None, VALUE)], timestamp_ms=1)
            request.topics.add(topic_id=TOPIC_ID).partitions.add(index=0, records=records)
            await stream.write(request)
            answer = await stream.read()
            assert isinstance(answer, produce_pb2.ProduceResponse)
            assert answer.topics[0].partitions[0].error_code == 0, answer
        stream.cancel()


def content(node: Node) -> bytes:
    log, records, at = node.partition.log, b"", 0
    while at < log.log_end_offset:
        read = log.read(at, max_bytes=1 << 20, limit=log.log_end_offset)
        records += read.records
        at = read.next_offset
    return records


def flip(directory: Path, base: int, at: int) -> None:
    path = directory / "orders-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def two(
    leader: int, *, epoch: int, isr: tuple[int, ...], partition_epoch: int | None = None
) -> PartitionState:
    return state(
        leader,
        epoch=epoch,
        isr=isr,
        partition_epoch=partition_epoch,
        replicas=(1, 2),
        min_insync=1,
    )


def ranges(node: Node) -> list[tuple[int, int]]:
    return [(r.start, r.end) for r in node.partition.log.damaged_ranges.entries]


async def test_a_follower_heals_what_the_scrub_finds_once_it_is_out_of_the_isr(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **SMALL)) for i in (1, 2)
        ]
        await decide(two(1, epoch=0, isr=(1, 2)), a, b)
        await produce(a, 12)
        await eventually(lambda: b.partition.log.log_end_offset == 24, "it follows")
        base = b.partition.log.segments[1].base_offset
        flip(tmp_path / "2", base, 100)
        await b.replicas.scrubber.round()
        assert ranges(b) == [(base, base + 2)]
        assert b.replicas.offline_replicas() == {(TOPIC_ID, 0): ReplicaCondition.DAMAGED}
        with pytest.raises(KafkaStorageError, match=f"offsets {base} to {base + 1} .*are damaged"):
            b.partition.read_log(base, max_bytes=100, limit=24)
        await b.replicas.damage.look()
        assert ranges(b) == [(base, base + 2)], "it may be needed while it is in the ISR"

        told: list[tuple[bool, int]] = []
        b.controller.on_offline = lambda: told.append(
            (b.replicas.offline_replicas() == {}, b.partition.log.log_end_offset)
        )
        await decide(two(1, epoch=0, isr=(1,), partition_epoch=1), a, b)
        await eventually(lambda: ranges(b) == [], "healed")
        await eventually(lambda: b.partition.log.log_end_offset == 24, "copied again")
        await eventually(lambda: (True, 24) in told, "told when it holds everything again")
        assert [end for is_sound, end in told if is_sound] == [24], "and not before (I-24)"
        assert content(b) == content(a)
        assert b.replicas.offline_replicas() == {}
        await eventually(lambda: any(len(p.isr) == 2 for p in a.proposals), "it joins again")


async def test_nothing_is_cut_before_the_controller_knows_of_the_damage(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **SMALL)) for i in (1, 2)
        ]
        known: list[int] = []
        b.controller.known_at = lambda _: known[0] if known else None
        await decide(two(1, epoch=0, isr=(1,)), a, b)
        await produce(a, 12)
        await eventually(lambda: b.partition.log.log_end_offset == 24, "it follows")
        flip(tmp_path / "2", 0, 100)
        await b.replicas.scrubber.round()
        await b.replicas.damage.look()
        assert ranges(b) == [(0, 2)]
        known.append(b.metadata.applied_offset + 2)
        await b.replicas.damage.look()
        assert ranges(b) == [(0, 2)], "the push that may put it into the ISR is still under way"
        await decide(two(1, epoch=0, isr=(1,), partition_epoch=1), a, b)
        await eventually(lambda: ranges(b) == [], "healed")


async def test_a_damaged_copy_is_kept_while_the_leader_lacks_a_range_itself(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **SMALL)) for i in (1, 2)
        ]
        await decide(two(1, epoch=0, isr=(1, 2)), a, b)
        await produce(a, 12)
        await eventually(lambda: b.partition.log.log_end_offset == 24, "it follows")
        flip(tmp_path / "1", 4, 100)
        flip(tmp_path / "2", 0, 100)
        for node in (a, b):
            await node.replicas.scrubber.round()
        told = two(1, epoch=0, isr=(1,), partition_epoch=1)
        await decide(told, a, b, offline=(1, 2))
        await b.replicas.damage.look()
        assert ranges(b) == [(0, 2)]
        await decide(two(1, epoch=0, isr=(1,), partition_epoch=2), a, b, offline=(2,))
        await eventually(lambda: ranges(b) == [], "healed")


async def test_damage_below_the_log_start_is_nobodys_loss(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **SMALL)) for i in (1, 2)
        ]
        await decide(two(1, epoch=0, isr=(1,)), a, b)
        await produce(a, 12)
        await eventually(lambda: b.partition.log.log_end_offset == 24, "it follows")
        flip(tmp_path / "2", 0, 100)
        b.partition.log.raise_log_start(2)
        await b.replicas.scrubber.round()
        assert ranges(b) == [(0, 2)]
        await b.replicas.damage.look()
        assert b.partition.log.state.truncations == 0, "nothing is copied anew for it"
        assert b.replicas.offline_replicas() == {}


async def test_the_only_copy_serves_everything_but_the_damage(tmp_path: Path) -> None:
    async with run_node(tmp_path / "1", 1, **SMALL) as a:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await produce(a, 12)
        whole = content(a)
    flip(tmp_path / "1", 4, 16)
    async with run_node(tmp_path / "1", 1, **SMALL) as a:
        await decide(state(1, epoch=1, isr=(1,), replicas=(1,), min_insync=1), a)
        log = a.partition.log
        with pytest.raises(KafkaStorageError, match=r"if there is none they are lost: read on"):
            a.partition.read_log(4, max_bytes=1 << 20, limit=24)
        await a.replicas.damage.look()
        assert ranges(a) == [(4, 6)], "looked at closely"
        assert a.replicas.offline_replicas() == {(TOPIC_ID, 0): ReplicaCondition.DAMAGED}
        rest = log.read(6, max_bytes=1 << 20, limit=24).records
        assert rest in whole
        assert all(crc_matches(rest, at, header) for at, header in iter_headers(rest))
        assert read_header(rest).base_offset == 6
        await produce(a, 1)
        assert log.log_end_offset == 26


async def test_a_mark_of_the_only_copy_goes_when_the_disk_gives_the_bytes_again(
    tmp_path: Path,
) -> None:
    """In a sealed segment and in the active one (I-88)."""
    async with run_node(tmp_path / "1", 1, **SMALL) as a:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await produce(a, 13)
        log = a.partition.log
        active = log.segments[-1].base_offset
        for base in (4, active):
            flip(tmp_path / "1", base, 100)
            check_segment(log, base)
        assert [start for start, _ in ranges(a)] == [4, active]
        for base in (4, active):
            flip(tmp_path / "1", base, 100)
        await a.replicas.scrubber.round()
        assert ranges(a) == []
        assert a.replicas.offline_replicas() == {}


async def test_a_cold_read_checks_what_the_disk_gives(tmp_path: Path) -> None:
    async with run_node(tmp_path / "1", 1, **SMALL) as a:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await produce(a, 12)
        flip(tmp_path / "1", 4, 100)
        assert a.partition.read_log(0, max_bytes=1, limit=24).next_offset == 2
        with pytest.raises(KafkaStorageError, match="are damaged"):
            await a.replicas.warm(a.partition, 4, 1 << 20)
        with pytest.raises(KafkaStorageError, match="are damaged"):
            a.partition.read_log(4, max_bytes=100, limit=24)


async def test_a_replica_whose_directory_is_gone_is_made_anew_only_out_of_the_isr(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(run_node(tmp_path / "1", 1, **SMALL))
        async with run_node(tmp_path / "2", 2, **SMALL) as b:
            await decide(two(1, epoch=0, isr=(1, 2)), a, b)
            await produce(a, 12)
            await eventually(lambda: b.partition.log.log_end_offset == 24, "it follows")
        for path in sorted((tmp_path / "2" / "orders-0").iterdir()):
            path.unlink()
        (tmp_path / "2" / "orders-0").rmdir()
        b = await stack.enter_async_context(run_node(tmp_path / "2", 2, **SMALL))
        errors = await decide(two(2, epoch=1, isr=(2,)), b, refused=True)
        assert [type(error) for _, _, error in errors] == [KafkaStorageError]
        assert b.replicas.offline_replicas() == {(TOPIC_ID, 0): ReplicaCondition.MISSING}
        await decide(two(1, epoch=2, isr=(1,)), a, b)
        await eventually(lambda: b.partition.log.log_end_offset == 24, "copied")
        assert b.replicas.offline_replicas() == {}
