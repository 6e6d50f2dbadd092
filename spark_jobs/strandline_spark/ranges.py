"""One planned range, read on an executor: FetchRange, decoded message by message, until its last
offset has come.

Reading is pure: the same range gives the same records however often it is read (a task may be
retried or run twice). It is never short: what does not come within the deadline is an error, and so
is what the broker no longer has.

One server stream for each range; gRPC reads ahead within its window, so no thread is needed. A
stream has a deadline of its own and is renewed where it stopped, so a stuck broker is noticed while
a slow reader is not cut off.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX, Bound
from strandline_proto.errors import (
    NONE,
    CorruptMessage,
    OffsetOutOfRange,
    WireError,
    from_code,
)
from strandline_proto.v1 import fetch_pb2
from strandline_spark.cluster import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    Cluster,
    Leader,
    stub_for,
    transport_text,
)
from strandline_spark.decode import OPTION, RangeDecoder
from strandline_spark.errors import ClusterUnreachable, DataLoss, RangeStalled, UnknownTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.planner import PlannedRange

_logger: Final = logging.getLogger(__name__)

MESSAGE_BYTES: Final = 2 << 20
"""Best measured size of one message, and so of one Arrow batch: larger ones cost the JVM more than
they save.
"""
STALL_SECONDS: Final = 120.0
"""Longest wait for the next record of a range."""
STREAM_SECONDS: Final = 60.0
"""Deadline of one stream; a stream that has delivered something is renewed, one that has not is an
error to retry.
"""
GONE_SECONDS: Final = 10.0
"""How long a broker may not know a topic id (it may lag behind the controller) before the topic
counts as gone.
"""
CORRUPT_TRIES: Final = 3
"""A batch damaged on its way is fetched again; one damaged at the broker stays damaged."""


class _Gone(Exception):
    """The cluster's metadata knows the topic no more, or under another id."""


class RangeReader:
    """The records of one range as Arrow batches. Iterate `batches()` once; then `decoder` holds the
    account.
    """

    def __init__(
        self,
        planned: PlannedRange,
        bootstrap: tuple[str, ...],
        *,
        include_headers: bool,
        fail_on_data_loss: bool,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self._planned = planned
        self._fail_on_data_loss = fail_on_data_loss
        self._cluster = Cluster(bootstrap)
        self._cluster.remember_epoch(planned.topic_id, planned.tp.partition, planned.leader_epoch)
        self.decoder = RangeDecoder(
            planned.tp.topic,
            planned.tp.partition,
            planned.start,
            planned.stop,
            include_headers=include_headers,
            bound=Bound(max_decompressed_bytes, OPTION),
        )
        self._waiting_since = 0.0
        self._why = "no answer"
        self._pause = BACKOFF_SECONDS_MIN
        self._corrupt = 0

    def batches(self) -> Iterator[Any]:
        """Raises DataLoss, RangeStalled or CorruptMessage; never ends before the range's last
        offset.
        """
        self._waiting_since = time.monotonic()
        while self.decoder.position < self._planned.stop:
            try:
                leader = self._leader()
                if leader is not None:
                    yield from self._stream(leader)
            except grpc.RpcError as error:
                self._why = transport_text(error)
            except CorruptMessage as error:
                self._corrupt += 1
                if self._corrupt >= CORRUPT_TRIES:
                    raise
                self._why = str(error)
            except WireError as error:
                self._handle(error)
            except _Gone as gone:
                self._handle_gone(gone)
            if self.decoder.position < self._planned.stop:
                self._back_off()

    def _leader(self) -> Leader | None:
        planned = self._planned
        try:
            leader = self._cluster.leaders([planned.tp.topic]).get(planned.tp)
        except UnknownTopic as why:
            raise _Gone(str(why)) from why
        except ClusterUnreachable as why:
            self._why = str(why)
            return None
        if leader is None or leader.topic_id != planned.topic_id:
            raise _Gone(f"{planned.tp.topic} has another topic id than was planned")
        if not leader.address:
            self._why = "the partition has no leader"
            return None
        return leader

    def _stream(self, leader: Leader) -> Iterator[Any]:
        """Everything one call delivers. An error inside is for `batches` to judge."""
        call = stub_for(leader.address).FetchRange(
            fetch_pb2.FetchRangeRequest(
                topic_id=leader.topic_id,
                partition=self._planned.tp.partition,
                current_leader_epoch=leader.epoch,
                start_offset=self.decoder.position,
                stop_offset=self._planned.stop,
                max_message_bytes=MESSAGE_BYTES,
            ),
            timeout=STREAM_SECONDS,
        )
        try:
            for message in call:
                if message.error_code != NONE:
                    if message.error_code == OffsetOutOfRange.code:
                        self._out_of_range(message)
                        return
                    raise from_code(message.error_code, message.error_message)
                yield from self.decoder.decode(message.records)
                self.decoder.finish(message.next_offset)
                self._progressed()
        finally:
            # A task that is killed, or a LIMIT that is satisfied, closes this generator: the
            # server's stream ends too.
            call.cancel()

    def _progressed(self) -> None:
        self._waiting_since = time.monotonic()
        self._pause = BACKOFF_SECONDS_MIN
        self._corrupt = 0

    def _handle(self, error: WireError) -> None:
        """Remembers why to try again. Raises what trying again cannot cure."""
        if not error.retriable:
            raise error
        self._why = f"{type(error).__name__}: {error}"

    def _handle_gone(self, gone: _Gone) -> None:
        """A broker may lag behind the controller for a while; after that the topic is gone."""
        self._why = str(gone)
        if time.monotonic() - self._waiting_since >= GONE_SECONDS:
            self._lost(f"{self._where()}: the topic was deleted or created again ({gone})")
            self.decoder.finish(self._planned.stop)

    def _out_of_range(self, message: fetch_pb2.FetchRangeResponse) -> None:
        """The log starts later than it did. (A trailing watermark is OFFSET_NOT_AVAILABLE.)"""
        if message.log_start_offset <= self.decoder.position:
            raise from_code(message.error_code, message.error_message)
        self._lost(f"{self._where()}: the log starts at {message.log_start_offset} now")
        self.decoder.finish(message.log_start_offset)

    def _back_off(self) -> None:
        waited = time.monotonic() - self._waiting_since
        if waited > STALL_SECONDS:
            raise RangeStalled(
                f"{self._where()} got no record for {waited:.0f} s: {self._why}."
                " The batch will be read again once the partition is available"
            )
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, BACKOFF_SECONDS_MAX)

    def _where(self) -> str:
        bounds = f"[{self._planned.start}, {self._planned.stop})"
        return f"{self._planned.tp} at offset {self.decoder.position} of {bounds}"

    def _lost(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLoss(
                f"{what}; read sooner or keep records longer, start a new checkpoint, or set "
                "failOnDataLoss=false"
            )
        _logger.warning("data loss: %s", what)
