"""Produce: the batches of a request are views of its frame, and the answer is written by hand.

Versions 0 to 2 are advertised, because older librdkafka otherwise stops to compress (KAFKA-18659).
Kafka 4 closes the connection of a client that uses them, and so does this listener.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.hosts.serving.produce_requests import ProduceDeadlines, RequestedAppends
from strandline_broker.kafka.records.leader_hints import HINTED, endpoints_tag, leader_tag
from strandline_broker.kafka.records.refusals import Transactions
from strandline_broker.kafka.request import CloseConnection
from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.kafka.wire import Cursor, MalformedRequest, Writer
from strandline_proto.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    batch_size,
)
from strandline_proto.decompression import Compression
from strandline_proto.errors import (
    CorruptMessage,
    InvalidRecord,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.hot_messages import ProduceData, ProduceResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services
    from strandline_broker.kafka.wire import Buffers
    from strandline_proto.hot_messages import ProduceResponse

SERVED_FIRST: Final = 3
LOG_START: Final = 5
ZSTD: Final = 7
MESSAGES: Final = 8
"""First version whose answers explain an error."""
HINTS: Final = 10
"""First version whose answers name the current leader."""
TOPIC_IDS: Final = 13
"""First version that names a topic by its id."""
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
PARTITIONS_MAX: Final = 20_000
"""Limit of partitions in one request."""
RECORD_BYTES_MIN: Final = 14
"""Size of the smallest record of any format, without the offset and the length before it."""
MAGIC_AT: Final = 16
_CODEC: Final = 0x07
_NOTHING: Final = memoryview(b"")
_API: Final = BY_NAME["Produce"]
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_RESULT: Final = Struct(">ihqq")
"""Partition, error code, base offset and time of the append."""


class _Topic(NamedTuple):
    """A topic of the request; `outcomes` has None for each batch that is to be appended."""

    name: str
    topic_id: bytes
    outcomes: list[ProduceResult | None]


class _Parsed(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[_Topic]
    batches: list[ProduceData]
    """The batches to append, in the order of the request."""


class ProduceCalls:
    """The Produce requests of one listener."""

    def __init__(self, services: Services, listener: str) -> None:
        self._metadata = services.metadata
        self._listener = listener
        self._service = ProduceService(services.replicas, services.metadata, services.checks)
        self._transactions = Transactions(services.runtime)
        self._deadlines: ProduceDeadlines | None = None

    async def append(self, request: Request, answer: Callable[[Buffers | None], None]) -> None:
        """Appends the batches in order (P-37), as `request.Appending` describes."""
        version = request.version
        if version < SERVED_FIRST:
            raise CloseConnection(
                f"Produce {version} is not served: its messages have formats before magic 2; use a"
                " client of Kafka 0.11 or later"
            )
        parsed = self._parse(request.body, version)
        if parsed.transactional_id is not None:
            self._transactions.refuse(request, parsed.transactional_id)
        batches = parsed.batches
        ahead = await self._service.checks.ahead(
            ((data.topic_id, data.partition), data.records) for data in batches
        )
        appends = self._begin(request, parsed, answer)
        request.body = _NOTHING  # the log has the batches soon; do not keep them twice
        goes_on = await appends.start(batches, ahead)
        batches.clear()
        if parsed.acks == 0:
            refused = [each for topic in parsed.topics for each in topic.outcomes if each]
            if refused or not goes_on:
                reasons = [each.error_message for each in refused] + appends.refusals
                raise CloseConnection(
                    f"Produce with acks=0 has no answer, and was refused: {reasons[0]}"
                )
            answer(None)

    def _begin(
        self, request: Request, parsed: _Parsed, answer: Callable[[Buffers | None], None]
    ) -> RequestedAppends:
        if self._deadlines is None:
            self._deadlines = ProduceDeadlines()
        deadlines = self._deadlines

        def on_done(response: ProduceResponse) -> None:
            request.on_end = None
            answer(_encoded(request.version, parsed.topics, response))

        appends = RequestedAppends(
            self._service,
            self._metadata,
            self._listener,
            deadlines,
            on_done,
            correlation_id=request.header.correlation_id,
            acks=parsed.acks,
            timeout_ms=parsed.timeout_ms,
            is_transactional=parsed.transactional_id is not None,
        )

        def on_end() -> None:
            deadlines.drop(appends)
            appends.abandon()

        request.on_end = on_end
        return appends

    def _parse(self, body: memoryview, version: int) -> _Parsed:
        """Returns the request. A batch that Kafka refuses before its append has its outcome
        already.
        """
        cursor, compact = Cursor(body), _API.is_flexible(version)
        transactional_id = cursor.string(compact)
        acks, timeout_ms = cursor.fields(_ACKS_AND_TIMEOUT)
        parsed = _Parsed(transactional_id, acks, timeout_ms, [], [])
        named = 0
        for _ in range(cursor.elements(compact)):
            topic = self._topic(cursor, version, compact)
            parsed.topics.append(topic)
            count = cursor.elements(compact)
            named += count
            if named > PARTITIONS_MAX:
                raise MalformedRequest(f"a request names at most {PARTITIONS_MAX} partitions")
            for _ in range(count):
                index, records = cursor.int32(), cursor.view(compact)
                if compact:
                    cursor.skip_tags()
                refused = _refused(topic, index, records, version)
                topic.outcomes.append(refused)
                if refused is None:
                    assert records is not None, index
                    parsed.batches.append(ProduceData(topic.topic_id, index, records))
            if compact:
                cursor.skip_tags()
        if compact:
            cursor.skip_tags()
        cursor.check_end()
        return parsed

    def _topic(self, cursor: Cursor, version: int, compact: bool) -> _Topic:
        """The topic that the request names; its id is empty if no topic has that name."""
        if version >= TOPIC_IDS:
            return _Topic("", cursor.uuid(), [])
        name = cursor.text(compact)
        return _Topic(name, self._metadata.view.ids_by_name.get(name, b""), [])


def _refused(
    topic: _Topic, index: int, records: memoryview | None, version: int
) -> ProduceResult | None:
    """Returns the outcome of a batch that is refused by its form; None if it is to be appended."""
    if not topic.topic_id:
        code = UnknownTopicOrPartition.code
        why = f"broker knows no topic {topic.name}; it may be created or learned of soon"
    elif records is None or len(records) <= MAGIC_AT:
        code, why = InvalidRecord.code, "the request has no record batch for the partition"
    elif (size := batch_size(records)) < LENGTH_OVERHEAD + RECORD_BYTES_MIN:
        code, why = CorruptMessage.code, f"a record batch has {size} bytes, fewer than any can have"
    elif size > len(records):
        code = InvalidRecord.code
        why = f"a record batch has {size} bytes, of which the request holds {len(records)}"
    elif records[MAGIC_AT] != MAGIC:
        code = InvalidRecord.code
        why = f"the records have the format of magic {records[MAGIC_AT]}; send magic 2"
    elif version < ZSTD and size >= HEADER_SIZE and _codec(records) == Compression.ZSTD:
        code = UNSUPPORTED_COMPRESSION_TYPE
        why = f"Produce {version} cannot carry zstd, which came with version {ZSTD}; update the"
        why += " client, or set another compression.type"
    elif size < len(records):
        code = InvalidRecord.code
        why = f"{len(records) - size} bytes follow the record batch; send one for each partition"
    else:
        return None
    return ProduceResult(topic.topic_id, index, code, error_message=why)


def _codec(records: memoryview) -> int:
    return records[ATTRIBUTES_AT + 1] & _CODEC


def _encoded(version: int, topics: list[_Topic], response: ProduceResponse) -> Buffers:
    """The answer. `response` has the outcomes of the batches that were to be appended, in order."""
    out = Writer(compact=_API.is_flexible(version))
    appended = iter(response.partitions)
    hinted: set[int] = set()
    out.length(len(topics))
    for topic in topics:
        if version >= TOPIC_IDS:
            out.raw(topic.topic_id)
        else:
            out.string(topic.name)
        out.length(len(topic.outcomes))
        for outcome in topic.outcomes:
            result = next(appended) if outcome is None else outcome
            _write_result(out, version, result, hinted)
        out.no_tags()
    out.int32(0)  # throttle time
    nodes = [each for each in response.node_endpoints if each.node_id in hinted]
    if nodes:
        out.tags([(0, endpoints_tag(nodes))])
    else:
        out.no_tags()
    return out.buffers()


def _write_result(out: Writer, version: int, result: ProduceResult, hinted: set[int]) -> None:
    code, base_offset = result.error_code, result.base_offset
    append_time, log_start = result.log_append_time_ms, result.log_start_offset
    if not result.appended:
        base_offset = append_time = log_start = -1
    if code == UnknownTopicId.code and version < TOPIC_IDS:
        code = UnknownTopicOrPartition.code
    out.raw(_RESULT.pack(result.partition, code, base_offset, append_time))
    if version >= LOG_START:
        out.int64(log_start)
    if version >= MESSAGES:
        out.length(len(result.record_errors))
        for place, message in result.record_errors:
            out.int32(place)
            out.string(message)
            out.no_tags()
        out.string(result.error_message or None)
    leader = result.current_leader
    if version >= HINTS and leader is not None and code in HINTED:
        hinted.add(leader.leader_id)
        out.tags([(0, leader_tag(leader))])
    else:
        out.no_tags()
