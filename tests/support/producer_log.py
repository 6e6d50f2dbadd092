"""A log with the state of its producers beside it, kept together as a broker's partition does."""

import struct
from dataclasses import dataclass, field

from crc32c import crc32c

from strandline_broker.core.replication.producer_state import PersistedProducer, ProducerStates
from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_broker.storage.log.log import Log
from strandline_proto.batch import build_batch, end_marker_epoch, read_header
from support.storage import Store

DAY_MS = 86_400_000
TRANSACTIONAL, CONTROL = 0x10, 0x20


def idempotent_batch(
    producer_id: int,
    base_sequence: int,
    *values: bytes,
    producer_epoch: int = 0,
    timestamp_ms: int = 1000,
) -> bytes:
    return build_batch(
        ((None, value) for value in values),
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def with_attributes(batch: bytes, attributes: int) -> bytes:
    """The batch with these bits set besides its own, and its checksum made to fit."""
    changed = bytearray(batch)
    changed[22] |= attributes
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


def end_marker(
    producer_id: int, *, producer_epoch: int = 0, coordinator_epoch: int = 0, commit: bool = True
) -> bytes:
    """The control batch that ends a transaction, as Kafka's coordinator has it written."""
    marker = build_batch(
        [(struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch))],
        timestamp_ms=2000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    return with_attributes(marker, TRANSACTIONAL | CONTROL)


def transactional_batch(
    producer_id: int,
    *values: bytes,
    base_sequence: int = 0,
    producer_epoch: int = 0,
    timestamp_ms: int = 1000,
) -> bytes:
    batch = idempotent_batch(
        producer_id,
        base_sequence,
        *values,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
    )
    return with_attributes(batch, TRANSACTIONAL)


def loaded(log: Log, *, wall_ms: int = 0) -> ProducerStates:
    producers = load_producers(log, expiration_ms=DAY_MS, now_ms=0, wall_ms=wall_ms)
    log.keep_producers(producers.entries, producers.aborted_in)
    return producers


def replayed(log: Log) -> ProducerStates:
    """The state that every batch of the log gives, without any snapshot."""
    producers = ProducerStates(DAY_MS)
    producers.rebuild(log.replay(log.segments[0].base_offset), 0)
    return producers


@dataclass
class ProducerLog:
    store: Store
    producers: ProducerStates = field(init=False)

    def __post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        self.producers = loaded(self.store.log)

    @property
    def log(self) -> Log:
        return self.store.log

    def append(self, batch: bytes, *, epoch: int = 0) -> int:
        """As leader; the base offset."""
        header = read_header(batch)
        base = self.log.append_as_leader(batch, header, leader_epoch=epoch).base_offset
        marker = end_marker_epoch(batch, 0, header)
        self.producers.on_append(header._replace(base_offset=base), 0, marker)
        return base

    def copy_from(self, leader: Log, *, max_bytes: int = 1 << 20, epoch: int = 0) -> None:
        """As follower: one fetch."""
        end = self.log.log_end_offset
        run = leader.read(end, max_bytes=max_bytes, limit=leader.log_end_offset)
        at = 0
        for header in self.log.append_as_follower(run.records, leader_epoch=epoch):
            marker = end_marker_epoch(run.records, at, header)
            self.producers.on_append(header, 0, marker)
            at += header.size

    def truncate(self, offset: int) -> None:
        self.log.keep_producers(None)
        self.log.truncate_to(offset)
        self.load()

    def kill(self) -> None:
        self.store.restart()
        self.load()

    def stop(self) -> None:
        self.store.restart(Store.stop)
        self.load()

    @property
    def entries(self) -> list[PersistedProducer]:
        return self.producers.entries()
