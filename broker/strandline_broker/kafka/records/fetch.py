"""Fetch: the positions are read by hand, and the records of the answer are not copied.

There are no sessions (KIP-227): each request names all partitions of its consumer, and each answer
has session id 0, which tells a client to send full requests.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.common.fetch_messages import Position
from strandline_broker.hosts.serving.fetch import SessionlessFetch, Wanted
from strandline_broker.hosts.serving.replicas import node_on
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.records.leader_hints import HINTED, endpoints_tag, leader_tag
from strandline_broker.kafka.request import by_hand
from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.kafka.wire import INT32, NO_TAGS, Cursor, Writer
from strandline_proto.batch import iter_headers
from strandline_proto.decompression import Compression
from strandline_proto.errors import (
    NONE,
    FetchSessionIdNotFound,
    InconsistentClusterId,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.hosts.common.fetch_messages import FetchedPartition, Key
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import Buffer

LOG_START: Final = 5
STORAGE_ERRORS: Final = 6
"""First version whose clients know KafkaStorageError."""
SESSIONS: Final = 7
LEADER_EPOCHS: Final = 9
ZSTD: Final = 10
RACKS: Final = 11
"""First version whose answers name a replica to read from."""
HISTORIES: Final = 12
"""First version whose clients name the epoch of their last record."""
TOPIC_IDS: Final = 13
REPLICA_STATE: Final = 15
HINTS: Final = 16
"""First version whose answers name the current leader."""
CONSUMER: Final = -1
FULL_EPOCHS: Final = (0, -1)
CLUSTER_AUTHORIZATION_FAILED: Final = 31
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
CLUSTER_ID_TAG: Final = 0
REPLICA_STATE_TAG: Final = 1
NO_OFFSETS: Final = (-1, -1, -1)
READ_COMMITTED: Final = 1
_API: Final = BY_NAME["Fetch"]
_LIMITS: Final = Struct(">iiib")
"""Longest wait, least bytes, most bytes and isolation level."""
_SESSION: Final = Struct(">ii")
_POSITION_4: Final = Struct(">iqi")
_POSITION_5: Final = Struct(">iqqi")
_POSITION_9: Final = Struct(">iiqqi")
_POSITION_12: Final = Struct(">iiqiqi")
_RESULT_4: Final = Struct(">ihqq")
_RESULT_5: Final = Struct(">ihqqq")
_DIVERGING: Final = Struct(">iq")


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    """The id; empty if no topic has that name."""
    partitions: list[int]


class _Parsed(NamedTuple):
    replica_id: int
    cluster_id: str
    session_id: int
    session_epoch: int
    topics: list[_Topic]
    wanted: Wanted


class FetchCalls:
    """The Fetch requests of one listener."""

    def __init__(self, services: Services, listener: str) -> None:
        self._metadata = services.metadata
        self._replicas = services.replicas
        self._listener = listener

    @by_hand
    async def Fetch(self, request: Request) -> Buffers:
        version = request.version
        parsed = await self._parse(request.body, version)
        code = self._refused(parsed)
        if code != NONE and version >= SESSIONS:
            return self._encoded(version, parsed._replace(topics=[]), iter(()), code)
        if code != NONE:
            return self._encoded(version, parsed, iter(()), code)
        is_known = all(topic.topic_id for topic in parsed.topics)
        fetch = SessionlessFetch(
            self._metadata,
            self._replicas,
            parsed.wanted,
            is_hurried=request.is_hurried or not is_known,
        )
        request.on_hurry = fetch.hurry
        found = await fetch.answer()
        return self._encoded(version, parsed, iter(found), NONE)

    def _refused(self, parsed: _Parsed) -> int:
        """Returns the error for the whole request; 0 if it is served."""
        cluster_id = self._metadata.cluster_id
        if parsed.replica_id != CONSUMER:
            return CLUSTER_AUTHORIZATION_FAILED
        if parsed.cluster_id and parsed.cluster_id != cluster_id:
            return InconsistentClusterId.code
        if parsed.session_epoch not in FULL_EPOCHS:
            return FetchSessionIdNotFound.code
        if parsed.wanted.isolation_level not in (0, READ_COMMITTED):
            return UnsupportedVersion.code
        return NONE

    async def _parse(self, body: memoryview, version: int) -> _Parsed:
        cursor, compact = Cursor(body), _API.is_flexible(version)
        replica_id = cursor.int32() if version < REPLICA_STATE else CONSUMER
        max_wait_ms, min_bytes, max_bytes, level = cursor.fields(_LIMITS)
        session = cursor.fields(_SESSION) if version >= SESSIONS else (0, -1)
        positions: list[tuple[Key, Position]] = []
        topics: list[_Topic] = []
        turns = Turns()
        for _ in range(cursor.elements(compact)):
            topic = self._topic(cursor, version, compact)
            topics.append(topic)
            for _ in range(cursor.elements(compact)):
                await turns.took()
                index, position = _position(cursor, version)
                topic.partitions.append(index)
                if topic.topic_id:
                    positions.append(((topic.topic_id, index), position))
            if compact:
                cursor.skip_tags()
        if version >= SESSIONS:
            await _skip_forgotten(cursor, version, compact, turns)
        if version >= RACKS:
            cursor.string(compact)  # the consumer's rack: all reads are served by the leader
        cluster_id = ""
        if compact:
            cluster_id, replica_id = _read_tags(cursor, version, replica_id)
        cursor.check_end()
        wanted = Wanted(max_wait_ms, min_bytes, max_bytes, level, positions)
        return _Parsed(replica_id, cluster_id, session[0], session[1], topics, wanted)

    def _topic(self, cursor: Cursor, version: int, compact: bool) -> _Topic:
        if version >= TOPIC_IDS:
            return _Topic("", cursor.uuid(), [])
        name = cursor.text(compact)
        return _Topic(name, self._metadata.view.ids_by_name.get(name, b""), [])

    def _encoded(
        self, version: int, parsed: _Parsed, found: Iterator[FetchedPartition], code: int
    ) -> Buffers:
        """The answer. `found` has the results of the topics that are known; `code`: the error of
        the request, of each partition in a version whose answers have no place for it.
        """
        out = Writer(compact=_API.is_flexible(version))
        committed = parsed.wanted.isolation_level == READ_COMMITTED
        hinted: dict[int, None] = {}
        out.int32(0)  # throttle time
        if version >= SESSIONS:
            out.int16(code)
            out.int32(0)  # no session
        out.length(len(parsed.topics))
        for topic in parsed.topics:
            if version >= TOPIC_IDS:
                out.raw(topic.topic_id)
            else:
                out.string(topic.name)
            out.length(len(topic.partitions))
            for index in topic.partitions:
                if code != NONE:
                    _write_error(out, version, index, code)
                elif not topic.topic_id:
                    _write_error(out, version, index, UnknownTopicOrPartition.code)
                else:
                    _write_partition(out, version, index, next(found), committed, hinted)
            out.no_tags()
        self._write_endpoints(out, hinted)
        return out.buffers()

    def _write_endpoints(self, out: Writer, hinted: dict[int, None]) -> None:
        view = self._metadata.view
        nodes = [node_on(view, BrokerId(each), self._listener) for each in hinted]
        known = [node for node in nodes if node is not None]
        if known:
            out.tags([(0, endpoints_tag(known))])
        else:
            out.no_tags()


def _position(cursor: Cursor, version: int) -> tuple[int, Position]:
    """Returns the partition and the position in it."""
    if version >= HISTORIES:
        index, epoch, offset, fetched, start, limit = cursor.fields(_POSITION_12)
        cursor.skip_tags()
        return index, Position(epoch, offset, fetched, start, limit)
    if version >= LEADER_EPOCHS:
        index, epoch, offset, start, limit = cursor.fields(_POSITION_9)
        return index, Position(epoch, offset, -1, start, limit)
    if version >= LOG_START:
        index, offset, start, limit = cursor.fields(_POSITION_5)
        return index, Position(-1, offset, -1, start, limit)
    index, offset, limit = cursor.fields(_POSITION_4)
    return index, Position(-1, offset, -1, -1, limit)


async def _skip_forgotten(cursor: Cursor, version: int, compact: bool, turns: Turns) -> None:
    """Skips the partitions that leave a session: a full request has none."""
    for _ in range(cursor.elements(compact)):
        if version >= TOPIC_IDS:
            cursor.uuid()
        else:
            cursor.text(compact)
        count = cursor.elements(compact)
        cursor.raw(count * INT32.size)
        if compact:
            cursor.skip_tags()
        await turns.took()


def _read_tags(cursor: Cursor, version: int, replica_id: int) -> tuple[str, int]:
    """Returns the cluster's id and the replica's."""
    cluster_id = ""
    for _ in range(cursor.uvarint()):
        tag, value = cursor.uvarint(), Cursor(cursor.raw(cursor.uvarint()))
        if tag == CLUSTER_ID_TAG:
            cluster_id = value.string(compact=True) or ""
            value.check_end()
        elif tag == REPLICA_STATE_TAG and version >= REPLICA_STATE:
            replica_id = value.int32()
            value.int64()
            value.skip_tags()
            value.check_end()
    return cluster_id, replica_id


def _write_error(out: Writer, version: int, index: int, code: int) -> None:
    """A partition without records and offsets."""
    if version >= LOG_START:
        out.raw(_RESULT_5.pack(index, code, *NO_OFFSETS))
    else:
        out.raw(_RESULT_4.pack(index, code, *NO_OFFSETS[:2]))
    _write_rest(out, version, b"", committed=False)
    out.no_tags()


def _write_rest(out: Writer, version: int, records: Buffer, *, committed: bool) -> None:
    """Aborted transactions, the replica to read from, and the records."""
    out.length(0 if committed else -1)
    if version >= RACKS:
        out.int32(-1)
    out.view(records)


def _write_partition(
    out: Writer,
    version: int,
    index: int,
    found: FetchedPartition,
    committed: bool,
    hinted: dict[int, None],
) -> None:
    records = found.records
    if version < ZSTD and records:
        records = _before_zstd(records)
        if not records:
            _write_error(out, version, index, UNSUPPORTED_COMPRESSION_TYPE)
            return
    error = found.error
    if error is not None:
        code = _code_for(version, error.code)
        if version < HINTS or found.leader is None or code not in HINTED:
            _write_error(out, version, index, code)
            return
        out.raw(_RESULT_5.pack(index, code, *NO_OFFSETS))
        _write_rest(out, version, b"", committed=False)
        hinted[found.leader.broker_id] = None
        out.tags([(1, leader_tag(found.leader))])
        return
    high_watermark, stable, log_start = found.offsets
    if version >= LOG_START:
        out.raw(_RESULT_5.pack(index, NONE, high_watermark, stable, log_start))
    else:
        out.raw(_RESULT_4.pack(index, NONE, high_watermark, stable))
    _write_rest(out, version, records, committed=committed)
    if found.diverging is not None and version >= HISTORIES:
        out.tags([(0, _DIVERGING.pack(*found.diverging) + NO_TAGS)])
    else:
        out.no_tags()


def _code_for(version: int, code: int) -> int:
    """Returns the code as clients of that version know it."""
    if code == KafkaStorageError.code and version < STORAGE_ERRORS:
        return NotLeaderOrFollower.code
    if code == UnknownTopicId.code and version < TOPIC_IDS:
        return UnknownTopicOrPartition.code
    return code


def _before_zstd(records: Buffer) -> Buffer:
    """The batches before the first one of zstd, which clients of Fetch 9 and below cannot read."""
    for at, header in iter_headers(records):
        if header.compression == Compression.ZSTD:
            return memoryview(records)[:at]
    return records
