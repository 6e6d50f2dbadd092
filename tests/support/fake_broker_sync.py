"""A broker made of memory behind a real gRPC server: what Spark's side asks of a cluster, and ways
to make it fail.

It serves FetchRange, Metadata, ListOffsets and OffsetsForLeaderEpoch from batches that tests put
in. Tests change its attributes directly (from their own thread, between requests); Spark's
processes reach it over a real port.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import grpc

from strandline_proto import errors
from strandline_proto.batch import ATTRIBUTES_AT, Compression, build_batch, prefix, read_header
from strandline_proto.v1 import common_pb2, fetch_pb2, metadata_pb2, services_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Pair = tuple[bytes | None, bytes | None]


@dataclass
class FakePartition:
    leader_epoch: int = 0
    log_start: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(base offset, next offset, bytes), in order."""
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """(leader epoch, start offset), as a leader-epoch-checkpoint holds them."""
    isr: tuple[int, ...] = (1,)
    replicas: tuple[int, ...] = (1,)
    described_epoch: int | None = None
    """The leader epoch that Metadata gives, if not the current one: a broker that lags."""
    held_back: int = 0
    """How far the high watermark lies below the log end."""
    errors: list[int] = field(default_factory=list)
    """Error codes of the next answers about this partition, one each."""
    cut_after_messages: int | None = None
    """FetchRange breaks off (once) after so many messages."""
    on_range: Callable[[], object] | None = None
    """Called as FetchRange is about to send its second message, or its end."""
    is_unreadable: bool = False
    """FetchRange is refused, as the records are damaged on the broker's disk."""
    damaged_answers: int = 0
    """How many of the next FetchRange messages have a flipped byte."""

    @property
    def log_end(self) -> int:
        return self.batches[-1][1] if self.batches else self.log_start

    @property
    def high_watermark(self) -> int:
        return max(self.log_start, self.log_end - self.held_back)

    def append_bytes(self, batch: bytes, at: int | None = None) -> None:
        """Appends a batch as a leader does: base offset and leader epoch are set, nothing else is
        touched.
        """
        base = self.log_end if at is None else at
        header = read_header(batch)
        stored = prefix(base, header.batch_length, self.leader_epoch) + batch[16:]
        self.batches.append((base, base + header.last_offset_delta + 1, stored))

    def append(
        self,
        records: Sequence[Pair],
        *,
        timestamp_ms: int = 1_700_000_000_000,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.append_bytes(build_batch(records, timestamp_ms=timestamp_ms, compression=compression))

    def append_control(self) -> None:
        """A control batch of one record, as a transaction's end would be."""
        batch = bytearray(build_batch([(b"\0\0\0\1", b"\0\0\0\0\0\0")], timestamp_ms=0))
        batch[ATTRIBUTES_AT + 1] |= 0x30
        self.append_bytes(resealed(batch))

    def elect(self, *, keep: int | None = None) -> None:
        """A new leader epoch; its leader's log ends at `keep` (default: whole), so what was above
        is gone.
        """
        if keep is not None:
            self.batches = [batch for batch in self.batches if batch[1] <= keep]
            self.epochs = [entry for entry in self.epochs if entry[1] < self.log_end]
        self.leader_epoch += 1
        self.epochs.append((self.leader_epoch, self.log_end))

    def offset_at(self, timestamp_ms: int) -> int:
        """As ListOffsets means it: -1 latest, -2 earliest, else the first offset of that time."""
        if timestamp_ms < 0:
            return self.high_watermark if timestamp_ms == -1 else self.log_start
        for base, following, data in self.batches:
            if following > self.log_start and read_header(data).max_timestamp >= timestamp_ms:
                return base if base < self.high_watermark else -1
        return -1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """(epoch found, its end): the largest epoch at or below the one asked for."""
        below = [entry for entry in self.epochs if entry[0] <= epoch]
        if not below:
            return epoch, self.epochs[0][1]
        later = [start for found, start in self.epochs if found > epoch]
        return below[-1][0], min(later, default=self.log_end)

    def next_error(self) -> int:
        return self.errors.pop(0) if self.errors else errors.NONE


def resealed(batch: bytearray) -> bytes:
    """The batch with the CRC that its bytes now have."""
    from crc32c import crc32c

    batch[17:21] = crc32c(bytes(batch[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(batch)


@dataclass
class FakeTopic:
    topic_id: bytes
    partitions: list[FakePartition]
    internal: bool = False


class FakeBroker(services_pb2_grpc.BrokerServiceServicer):
    """One broker (id 1) that leads everything. Use it as a context manager."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.address = ""
        self.calls: list[str] = []
        self.open_ranges = 0
        self.range_port = 0
        """The port for ranges in plain frames; 0: Metadata names none."""
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(16))
        services_pb2_grpc.add_BrokerServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.address = f"127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.stop(grace=None).wait()

    def create(self, name: str, partitions: int = 1) -> FakeTopic:
        topic = FakeTopic(os.urandom(16), [FakePartition() for _ in range(partitions)])
        self.topics[name] = topic
        return topic

    def partition(self, topic_id: bytes, index: int) -> FakePartition | None:
        for topic in self.topics.values():
            if topic.topic_id == topic_id and index < len(topic.partitions):
                return topic.partitions[index]
        return None

    def _checked(
        self, topic_id: bytes, index: int, leader_epoch: int
    ) -> tuple[FakePartition | None, int]:
        found = self.partition(topic_id, index)
        if found is None:
            return None, errors.UnknownTopicId.code
        code = found.next_error()
        if code != errors.NONE:
            return found, code
        if 0 <= leader_epoch < found.leader_epoch:
            return found, errors.FencedLeaderEpoch.code
        if leader_epoch > found.leader_epoch:
            return found, errors.UnknownLeaderEpoch.code
        return found, errors.NONE

    def Metadata(
        self, request: metadata_pb2.MetadataRequest, context: grpc.ServicerContext
    ) -> metadata_pb2.MetadataResponse:
        self.calls.append("Metadata")
        host, port = self.address.split(":")
        answer = metadata_pb2.MetadataResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=[common_pb2.NodeEndpoint(node_id=1, host=host, port=int(port))],
        )
        if self.range_port:
            answer.range_brokers.add(node_id=1, host=host, port=self.range_port)
        names = [ref.name for ref in request.topics] if request.only_named else list(self.topics)
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                answer.topics.add(name=name, error_code=errors.UnknownTopicOrPartition.code)
                continue
            described = answer.topics.add(
                name=name, topic_id=topic.topic_id, is_internal=topic.internal
            )
            for index, p in enumerate(topic.partitions):
                described.partitions.add(
                    index=index,
                    leader=1,
                    leader_epoch=p.leader_epoch if p.described_epoch is None else p.described_epoch,
                    isr=p.isr,
                    replicas=p.replicas,
                )
        return answer

    def ListOffsets(
        self, request: fetch_pb2.ListOffsetsRequest, context: grpc.ServicerContext
    ) -> fetch_pb2.ListOffsetsResponse:
        self.calls.append("ListOffsets")
        answer = fetch_pb2.ListOffsetsResponse()
        for topic in request.topics:
            results = answer.topics.add(topic_id=topic.topic_id)
            for p in topic.partitions:
                found, code = self._checked(topic.topic_id, p.partition, p.current_leader_epoch)
                offset = -1
                if found is not None and code == errors.NONE:
                    offset = found.offset_at(p.timestamp)
                results.partitions.add(partition=p.partition, error_code=code, offset=offset)
        return answer

    def OffsetsForLeaderEpoch(
        self, request: fetch_pb2.OffsetsForLeaderEpochRequest, context: grpc.ServicerContext
    ) -> fetch_pb2.OffsetsForLeaderEpochResponse:
        self.calls.append("OffsetsForLeaderEpoch")
        answer = fetch_pb2.OffsetsForLeaderEpochResponse()
        for topic in request.topics:
            results = answer.topics.add(topic_id=topic.topic_id)
            for p in topic.partitions:
                found, code = self._checked(topic.topic_id, p.partition, p.current_leader_epoch)
                epoch, end = -1, -1
                if found is not None and code == errors.NONE:
                    epoch, end = found.epoch_end(p.leader_epoch)
                results.partitions.add(
                    partition=p.partition, error_code=code, leader_epoch=epoch, end_offset=end
                )
        return answer

    def FetchRange(
        self, request: fetch_pb2.FetchRangeRequest, context: grpc.ServicerContext
    ) -> Iterator[fetch_pb2.FetchRangeResponse]:
        self.calls.append("FetchRange")
        with self._lock:
            self.open_ranges += 1
        try:
            yield from self._range(request, context)
        finally:
            with self._lock:
                self.open_ranges -= 1

    def _range(
        self, request: fetch_pb2.FetchRangeRequest, context: grpc.ServicerContext
    ) -> Iterator[fetch_pb2.FetchRangeResponse]:
        found, code = self._checked(
            request.topic_id, request.partition, request.current_leader_epoch
        )
        if found is None or code != errors.NONE:
            yield fetch_pb2.FetchRangeResponse(error_code=code)
            return
        refusal = fetch_pb2.FetchRangeResponse(
            log_start_offset=found.log_start, high_watermark=found.high_watermark
        )
        if found.is_unreadable:
            refusal.error_code = errors.KafkaStorageError.code
            refusal.error_message = "damaged on this broker's disk"
            yield refusal
            return
        if request.start_offset < found.log_start:
            refusal.error_code = errors.OffsetOutOfRange.code
            yield refusal
            return
        if request.stop_offset > found.high_watermark:
            refusal.error_code = errors.OffsetNotAvailable.code
            yield refusal
            return
        for sent, answer in enumerate(_messages(found, request)):
            if found.cut_after_messages == sent:
                found.cut_after_messages = None
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut off by the test")
            if found.damaged_answers > 0:
                found.damaged_answers -= 1
                damaged = bytearray(answer.records)
                damaged[-1] ^= 0x01
                answer.records = bytes(damaged)
            yield answer
            if found.on_range is not None:
                found.on_range()


def _messages(
    partition: FakePartition, request: fetch_pb2.FetchRangeRequest
) -> Iterator[fetch_pb2.FetchRangeResponse]:
    """The batches of the range in messages of at most the size that was asked for."""
    bases = [base for base, _, _ in partition.batches]
    at = max(0, bisect_right(bases, request.start_offset) - 1)
    position = request.start_offset
    while position < request.stop_offset:
        picked: list[bytes] = []
        size = 0
        base = position
        while at < len(partition.batches) and partition.batches[at][0] < request.stop_offset:
            first, following, data = partition.batches[at]
            if picked and size + len(data) > request.max_message_bytes:
                break
            at += 1
            if following <= position:
                continue
            base = first if not picked else base
            picked.append(data)
            size += len(data)
            position = following
        if not picked:
            position = request.stop_offset
        yield fetch_pb2.FetchRangeResponse(
            base_offset=base,
            next_offset=position,
            leader_epoch=partition.leader_epoch,
            records=b"".join(picked),
            log_start_offset=partition.log_start,
            high_watermark=partition.high_watermark,
        )
