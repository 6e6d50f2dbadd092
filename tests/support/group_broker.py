"""The groups' coordinator on one broker with a real log, and the test as its controller and as its
one follower: it decides who leads, and how far the follower has read.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    ConsumerBeat,
    FetchOffsets,
    OffsetsFetched,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.core.groups.records import codec
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.push_envelope import (
    TOPIC_DELETED,
    Envelope,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    TopicMetadata,
)
from strandline_broker.core.replication.partition_state import IsrMember, PartitionState
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.groups.coordinator import CODE, group_shards
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.rpc.records.fetch_client import FetchClient
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_proto.batch import iter_headers, read_header, read_records
from strandline_proto.errors import WireError
from strandline_proto.ids import (
    NO_LEADER,
    UNKNOWN_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    Offset,
    PartitionEpoch,
    TopicId,
)
from strandline_runtime.real import real_runtime
from support.applied_envelopes import applied_to
from support.told_controller import ToldController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import Reply
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.member.envelopes import Envelopes
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import FileSystem, Runtime

OFFSETS_ID = TopicId(b"o" * 16)
ORDERS_ID = TopicId(b"t" * 16)
ORDERS = "orders"
PARTITIONS = 4
WAIT_S = 120.0
B = TypeVar("B", bound="GroupBroker")
BROKERS = (1, 2)
REPLICAS = tuple(BrokerId(b) for b in BROKERS)

CODE.load()  # so that a shard begins to load in the same step, in the first test too


@dataclass
class GroupBroker:
    """Broker 1; broker 2 is in the ISR and reads when the test says so."""

    shards: Shards[GroupShard]
    replicas: ReplicaManager
    envelopes: Envelopes
    metadata: MetadataCache
    topics: dict[TopicId, tuple[str, int]]
    exits: list[str]
    partition_epoch: int = 0
    orders_leader: BrokerId = NO_LEADER
    """The leader of the topics of users."""
    coordinators_topic: str = CONSUMER_OFFSETS

    # As the controller

    async def lead(
        self, epoch: int, *, isr: Sequence[int] = BROKERS, min_insync: int = 1, publish: bool = True
    ) -> None:
        await self._decide(1, epoch, isr, min_insync, publish=publish)

    async def follow(self, epoch: int) -> None:
        await self._decide(2, epoch, BROKERS, 1)

    async def delete(self) -> None:
        stop = StopReplica(OFFSETS_ID, 0, LeaderEpoch(TOPIC_DELETED), delete=True)
        await self._push(stop_replicas=(stop,))

    async def _decide(
        self, leader: int, epoch: int, isr: Sequence[int], min_insync: int, *, publish: bool = True
    ) -> None:
        self.partition_epoch += 1
        decided = PartitionState(
            topic=self.coordinators_topic,
            topic_id=OFFSETS_ID,
            partition=0,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(epoch),
            isr=tuple(IsrMember(BrokerId(b), BrokerEpoch(b)) for b in isr),
            partition_epoch=PartitionEpoch(self.partition_epoch),
            replicas=REPLICAS,
            elr=(),
            eff_min_insync=min_insync,
            is_new=self.partition_epoch == 1,
            recovering=False,
            unclean_epoch=UNKNOWN_EPOCH,
        )
        metadata = PartitionMetadata(
            partition=0,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(epoch),
            partition_epoch=PartitionEpoch(self.partition_epoch),
            replicas=REPLICAS,
            isr=tuple(BrokerId(b) for b in isr),
        )
        topic = TopicMetadata(
            self.coordinators_topic, OFFSETS_ID, (metadata,), {"cleanup.policy": "compact"}
        )
        await self._push(leader_and_isr=(decided,), topics=(topic,), publish=publish)

    async def set_topics(self, topics: dict[TopicId, tuple[str, int]]) -> None:
        """These and no others, beside the coordinator's."""
        gone = tuple(topic_id for topic_id in self.topics if topic_id not in topics)
        self.topics = topics
        await self._push(deleted_topic_ids=gone)

    async def lead_orders(self, leader: int) -> None:
        """That broker leads the topics of users."""
        self.orders_leader = BrokerId(leader)
        await self._push()

    async def _push(self, *, publish: bool = True, topics: object = (), **parts: object) -> None:
        offset = MetadataOffset(self.metadata.applied_offset + 1)
        users = tuple(
            TopicMetadata(
                name,
                topic_id,
                tuple(PartitionMetadata(p, self.orders_leader) for p in range(count)),
                {},
            )
            for topic_id, (name, count) in self.topics.items()
        )
        assert isinstance(topics, tuple)
        envelope = Envelope(
            cluster_id="c",
            controller_id=BrokerId(0),
            store_id="s",
            controller_epoch=ControllerEpoch(1),
            broker_epoch=BrokerEpoch(1),
            metadata_offset=offset,
            prev_metadata_offset=MetadataOffset(offset - 1),
            full=False,
            topics=(*topics, *users),
            live_brokers=tuple(
                LiveBroker(b, BrokerEpoch(b), (Endpoint("PLAINTEXT", "127.0.0.1", 1),))
                for b in REPLICAS
            ),
            **parts,  # type: ignore[arg-type] # the caller names fields of the envelope
        )
        view = self.metadata.prepare(envelope)
        assert await self.envelopes.apply(envelope) == []
        self.metadata.publish(view, store_id="s")
        if publish:
            self.shards.published()

    # As the follower

    def replicate(self, end: int | None = None) -> None:
        """Broker 2 has read up to there, or all there is, so that is committed."""
        partition = self.partition
        role = check_leader(partition, None)
        role.carry_out(
            role.machine.on_follower_fetch(
                BrokerId(2),
                broker_epoch=BrokerEpoch(2),
                leader_epoch=role.machine.leader_epoch,
                fetch_offset=Offset(partition.log.log_end_offset if end is None else end),
                log_start_offset=Offset(partition.log.log_start_offset),
                now_ms=0,
            )
        )

    # What there is

    @property
    def partition(self) -> Partition:
        found = self.replicas.find(OFFSETS_ID, 0)
        assert found is not None
        return found

    @property
    def host(self) -> GroupShard:
        return self.shards.of("g")

    @property
    def shard(self) -> ShardHost[GroupShard]:
        return self.host.shard

    def store(self, *batches: bytes) -> None:
        """Into the log past the shard, as somebody else left it there."""
        log = self.partition.log
        for data in batches:
            log.append_as_leader(data, read_header(data), leader_epoch=self.partition.leader_epoch)
        role = check_leader(self.partition, None)
        role.carry_out(role.machine.on_append(Offset(log.log_end_offset)))

    def batches(self, start: int = 0) -> list[list[tuple[object, object]]]:
        """The log from there on: of each batch its records, tombstones as None."""
        log = self.partition.log
        data = log.read(start, max_bytes=1 << 30, limit=log.log_end_offset).records
        return [
            [_decoded(r.key, r.value) for r in read_records(data, at, header)]
            for at, header in iter_headers(data)
        ]

    # As clients

    def commit(
        self,
        offset: int,
        *,
        group_id: str = "g",
        member_id: str = "",
        epoch: int = -1,
        partition: int = 0,
    ) -> asyncio.Future[Reply]:
        wish = PartitionCommit(TopicRef(ORDERS_ID), partition, offset)
        return self.submit(
            CommitOffsets(
                group_id=group_id, partitions=(wish,), member_id=member_id, member_epoch=epoch
            )
        )

    async def fetch(self, partition: int = 0) -> int:
        """The committed offset of that partition of orders; an error is raised."""
        topics = (TopicPartitionsRef(TopicRef(ORDERS_ID), (partition,)),)
        reply = await answered(self.submit(FetchOffsets(group_id="g", topics=topics)))
        assert isinstance(reply, OffsetsFetched), reply
        assert reply.offsets[0].error is None
        return reply.offsets[0].offset

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        owned: PartitionSets | None = None,
        instance_id: str | None = None,
    ) -> asyncio.Future[Reply]:
        joins = epoch == 0
        return self.submit(
            ConsumerBeat(
                group_id="g",
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance_id,
                rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=(ORDERS,) if joins else None,
                owned={} if joins else owned,
            )
        )

    def submit(self, command: object) -> asyncio.Future[Reply]:
        try:
            return self.host.submit(command)  # type: ignore[arg-type] # a command
        except WireError as error:
            refused: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            refused.set_result(error)
            return refused

    async def serves(self) -> None:
        """Until the shard is loaded."""
        await self.shard.settled(WAIT_S)
        assert self.host.machine.refusal() is None

    async def turns(self, count: int = 50) -> None:
        """Let whatever is ready go on."""
        for _ in range(count):
            await asyncio.sleep(0)

    # Its disk

    @contextmanager
    def disk_stands_still(self) -> Iterator[None]:
        """Nothing that was handed to the disk's threads begins until the block ends."""
        goes_on = threading.Event()
        self.replicas.dirs.lane(self.partition.log).thread.submit(goes_on.wait)
        try:
            yield
        finally:
            goes_on.set()


async def answered(future: asyncio.Future[Reply]) -> Reply:
    """The answer, where it is no error."""
    async with asyncio.timeout(WAIT_S):
        reply = await future
    if isinstance(reply, WireError):
        raise reply
    return reply


def _runtime(exits: list[str]) -> Runtime:
    """One whose end a test can see."""

    def exit_(why: str) -> NoReturn:
        exits.append(why)
        raise SystemExit(why)

    return replace(real_runtime("broker-1"), exit=exit_)


def _config(path: Path, settings: dict[str, str]) -> BrokerConfig:
    overrides = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(path),
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
    }
    overrides |= {name.replace("_", "."): value for name, value in settings.items()}
    return load_broker_config(None, overrides, {})


@asynccontextmanager
async def group_broker(
    path: Path, *, fs: FileSystem | None = None, **settings: str
) -> AsyncIterator[GroupBroker]:
    """Broker 1, which leads nothing yet."""

    def make(
        runtime: Runtime, config: BrokerConfig, metadata: MetadataCache, events: Events
    ) -> Shards[GroupShard]:
        return group_shards(runtime, config, metadata, lambda: True, events)

    async with broker_of(GroupBroker, make, path, fs=fs, **settings) as broker:
        yield broker


@asynccontextmanager
async def broker_of(
    kind: Callable[..., B],
    make: Callable[[Runtime, BrokerConfig, MetadataCache, Events], Shards[Any]],
    path: Path,
    *,
    fs: FileSystem | None = None,
    **settings: str,
) -> AsyncIterator[B]:
    """Broker 1 with the shards of one coordinator."""
    exits: list[str] = []
    runtime = _runtime(exits)
    if fs is not None:
        runtime = replace(runtime, fs=fs)
    config = _config(path, settings)
    directories = BrokerDirectories.open(
        runtime.fs, [str(path)], node_id=1, cluster_id="c", new_id=runtime.random_id
    )
    metadata = MetadataCache(cluster_id="c")
    events = Events(runtime.clock)
    shards = make(runtime, config, metadata, events)
    controller = ToldController(1)
    replicas = ReplicaManager(
        runtime,
        config,
        directories,
        metadata,
        controller,
        open_fetch=FetchClient(runtime.network),
        observers=(shards,),
        events=events,
    )
    await replicas.load()
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(replicas.run()), loop.create_task(shards.run(replicas.dirs))]
    await asyncio.sleep(0)
    topics = {ORDERS_ID: (ORDERS, PARTITIONS)}
    envelopes = applied_to(replicas, runtime, metadata, controller, session_s=lambda: 9.0)
    try:
        async with envelopes.late.owned():
            yield kind(shards, replicas, envelopes, metadata, topics, exits)
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await replicas.close()
        directories.close()


def _decoded(key: bytes | None, value: bytes | None) -> tuple[object, object]:
    assert key is not None
    found = codec.decode(key, value)
    assert not isinstance(found, codec.Unknown), found
    return found.key, found.value
