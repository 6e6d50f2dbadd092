"""The reader of one planned range on an executor: it calls FetchRange, in plain frames or over
gRPC, and decodes message by message until the range's last offset arrived.

Reading has no side effects: the same range gives the same records every time (a task may be retried
or run twice). A range is never read short. If records do not arrive within the deadline, or the
broker no longer has them, the task fails.

Each range has one stream of the broker, which reads one message ahead, so no thread is needed. A
stream has its own deadline and is renewed where it stopped. So a stuck broker is detected, while a
slow reader reads on.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX, Bound
from strandline_proto.errors import (
    NONE,
    CorruptMessage,
    KafkaStorageError,
    OffsetOutOfRange,
    WireError,
    from_code,
)
from strandline_proto.hot_messages import FetchRangeRequest
from strandline_spark.cluster.cluster import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Cluster,
    Leader,
)
from strandline_spark.cluster.failed_calls import transport_text
from strandline_spark.cluster.range_calls import messages_of
from strandline_spark.cluster.range_streams import RangeBroken
from strandline_spark.errors import (
    ClusterUnreachable,
    RangeStalled,
    RecordsNotServed,
    UnknownTopic,
    first_line,
)
from strandline_spark.source.decode import OPTION, RangeDecoder
from strandline_spark.source.losses import Loss, OnLoss, Reason, settle
from strandline_spark.source.schema import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proto.hot_messages import FetchRangeResponse
    from strandline_spark.source.splitting import PlannedRange

MESSAGE_BYTES: Final = 2 << 20
"""The best measured size of one message, and so of one Arrow batch. Larger ones cost the JVM more
than they save.
"""
STALL_SECONDS: Final = 120.0
"""Longest wait for the next record of a range (the option pollTimeoutMs)."""
GONE_SECONDS: Final = 10.0
"""How long a broker may not know a topic id before the topic counts as gone. A broker may lag
behind the controller.
"""
REFUSED_SECONDS: Final = 10.0
"""How long a leader may report that it cannot read its disk. A leader with another in-sync replica
hands over within that time; without one, waiting helps nothing.
"""
CORRUPT_TRIES: Final = 3
"""Attempts to fetch a damaged batch. A batch damaged on its way is sound in the next attempt; one
damaged at the broker stays damaged.
"""


class _Gone(Exception):
    """The cluster's metadata no longer has the topic, or has it under another id."""


class RangeReader:
    """The records of one range as Arrow batches. Iterate `batches()` once; then `decoder` holds the
    account.
    """

    def __init__(
        self,
        planned: PlannedRange,
        bootstrap: tuple[str, ...],
        *,
        columns: tuple[str, ...] = PLAIN,
        on_loss: OnLoss,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
        stall_seconds: float | None = None,
        read_committed: bool = False,
        message_bytes: int | None = None,
    ) -> None:
        """`message_bytes`: the size of one message, and so of one Arrow batch."""
        self._message_bytes = MESSAGE_BYTES if message_bytes is None else message_bytes
        self._planned = planned
        self._on_loss = on_loss
        self._isolation_level = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self._stall_seconds = STALL_SECONDS if stall_seconds is None else stall_seconds
        self._stop = planned.stop
        self._epoch = planned.leader_epoch
        self._cluster = Cluster(bootstrap)
        self._cluster.remember_epoch(planned.topic_id, planned.tp.partition, planned.leader_epoch)
        self.decoder = RangeDecoder(
            planned.tp.topic,
            planned.tp.partition,
            planned.start,
            planned.stop,
            columns=columns,
            bound=Bound(max_decompressed_bytes, OPTION),
        )
        self._waiting_since = 0.0
        self._why = "no answer"
        self._pause = BACKOFF_SECONDS_MIN
        self._corrupt = 0
        self._refused_since: float | None = None

    def batches(self) -> Iterator[Any]:
        """Yields the batches of the range; never ends before its last offset. Raises DataLoss,
        RangeStalled, RecordsNotServed or CorruptMessage.
        """
        self._waiting_since = time.monotonic()
        while self.decoder.position < self._stop:
            try:
                leader = self._leader()
                if leader is not None and self._holds_the_range(leader):
                    yield from self._stream(leader)
            except grpc.RpcError as error:
                self._why = transport_text(error)
            except RangeBroken as error:
                self._why = str(error)
            except CorruptMessage as error:
                self._corrupt += 1
                if self._corrupt >= CORRUPT_TRIES:
                    raise
                self._why = str(error)
            except WireError as error:
                self._handle(error)
            except _Gone as gone:
                self._handle_gone(gone)
            if self.decoder.position < self._stop:
                self._back_off()
        self.decoder.lose(self._planned.stop)

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

    def _holds_the_range(self, leader: Leader) -> bool:
        """True if this leader holds the rest of the range.

        The range was planned from the log of an earlier leader. A later leader may have been
        elected without it, and then has other records at the same offsets.
        """
        tp = self._planned.tp
        if leader.epoch > self._epoch:
            try:
                ends = self._cluster.epoch_ends({tp: self._planned.leader_epoch}, {tp: leader})
            except ClusterUnreachable as why:
                self._why = str(why)
                return False
            except UnknownTopic as why:
                raise _Gone(str(why)) from why
            self._epoch = leader.epoch
            if ends[tp] < self._stop:
                what = (
                    f"the log left leader epoch {self._planned.leader_epoch} at {ends[tp]} while"
                    f" {self._range()} was read: committed records were truncated"
                )
                self._lost(max(ends[tp], self.decoder.position), Reason.TRUNCATION, what)
                self._stop = max(ends[tp], self.decoder.position)
        return self.decoder.position < self._stop

    def _stream(self, leader: Leader) -> Iterator[Any]:
        """Yields all messages of one call. `batches` judges its errors."""
        request = FetchRangeRequest(
            topic_id=leader.topic_id,
            partition=self._planned.tp.partition,
            current_leader_epoch=leader.epoch,
            start_offset=self.decoder.position,
            stop_offset=self._stop,
            isolation_level=self._isolation_level,
            max_message_bytes=self._message_bytes,
        )
        # A killed task or a satisfied LIMIT closes this generator, which also ends the broker's
        # stream.
        with closing(messages_of(leader, request)) as messages:
            for message in messages:
                if message.error_code != NONE:
                    if message.error_code == OffsetOutOfRange.code:
                        self._out_of_range(message)
                        return
                    raise from_code(message.error_code, message.error_message)
                yield from self.decoder.decode(message.records, message.aborted_transactions)
                self.decoder.finish(message.next_offset)
                self._progressed()

    def _progressed(self) -> None:
        self._waiting_since = time.monotonic()
        self._pause = BACKOFF_SECONDS_MIN
        self._corrupt = 0
        self._refused_since = None

    def _handle(self, error: WireError) -> None:
        """Stores the reason to retry. Raises errors that a retry cannot cure."""
        if not error.retriable:
            raise error
        if isinstance(error, KafkaStorageError):
            self._check_not_refused_for_long(error)
        self._why = f"{type(error).__name__}: {error}"

    def _check_not_refused_for_long(self, error: KafkaStorageError) -> None:
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= REFUSED_SECONDS:
            raise RecordsNotServed(
                f"{self._where()} is not served, and no other leader has come for"
                f" {now - self._refused_since:.0f} s: {first_line(error)}"
            ) from error

    def _handle_gone(self, gone: _Gone) -> None:
        """Retries for a while, since a broker may lag behind the controller; then the topic counts
        as gone.
        """
        self._why = str(gone)
        if time.monotonic() - self._waiting_since >= GONE_SECONDS:
            what = f"the topic was deleted or created again ({gone})"
            self._lost(self.decoder.position, Reason.DELETION, what)
            self._stop = self.decoder.position

    def _out_of_range(self, message: FetchRangeResponse) -> None:
        """Handles a log that now starts later. (A trailing watermark is OFFSET_NOT_AVAILABLE.)"""
        if message.log_start_offset <= self.decoder.position:
            raise from_code(message.error_code, message.error_message)
        first = self.decoder.position
        end = min(message.log_start_offset, self._stop)
        what = f"the log starts at {message.log_start_offset} now"
        self._lost(first, Reason.RETENTION, what, end)
        self.decoder.lose(end)

    def _back_off(self) -> None:
        waited = time.monotonic() - self._waiting_since
        if waited > self._stall_seconds:
            raise RangeStalled(
                f"{self._where()} got no record for {waited:.0f} s: {self._why}."
                " The batch will be read again once the partition is available"
            )
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, BACKOFF_SECONDS_MAX)

    def _where(self) -> str:
        return f"{self._planned.tp} at offset {self.decoder.position} of {self._range()}"

    def _range(self) -> str:
        return f"[{self._planned.start}, {self._planned.stop})"

    def _lost(self, start: int, reason: Reason, what: str, end: int | None = None) -> None:
        end = self._planned.stop if end is None else end
        settle([Loss(self._planned.tp, start, end, reason, what)], self._on_loss)
