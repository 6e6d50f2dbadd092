"""A Fetch request, read by hand."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.common.fetch_messages import Position
from strandline_broker.hosts.serving.fetch import Wanted
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.kafka.wire import INT32, Cursor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.hosts.common.fetch_messages import Key

LOG_START: Final = 5
SESSIONS: Final = 7
LEADER_EPOCHS: Final = 9
RACKS: Final = 11
HISTORIES: Final = 12
"""First version whose clients name the epoch of their last record."""
TOPIC_IDS: Final = 13
REPLICA_STATE: Final = 15
CONSUMER: Final = -1
NO_SESSION: Final = (0, -1)
CLUSTER_ID_TAG: Final = 0
REPLICA_STATE_TAG: Final = 1
_API: Final = BY_NAME["Fetch"]
_LIMITS: Final = Struct(">iiib")
"""Longest wait, least bytes, most bytes and isolation level."""
_SESSION: Final = Struct(">ii")
_POSITION_4: Final = Struct(">iqi")
_POSITION_5: Final = Struct(">iqqi")
_POSITION_9: Final = Struct(">iiqqi")
_POSITION_12: Final = Struct(">iiqiqi")


class FetchTopic(NamedTuple):
    name: str
    """The name; empty in a version that has ids."""
    topic_id: bytes
    """The id; empty if no topic has that name."""
    partitions: list[int]


class ParsedFetch(NamedTuple):
    replica_id: int
    """Id of the follower that asks; -1 for a consumer."""
    cluster_id: str
    session_epoch: int
    topics: list[FetchTopic]
    wanted: Wanted


async def parse_fetch(
    body: memoryview, version: int, ids_by_name: Mapping[str, bytes]
) -> ParsedFetch:
    """Returns the request. Raises MalformedRequest."""
    cursor, compact = Cursor(body), _API.is_flexible(version)
    replica_id = cursor.int32() if version < REPLICA_STATE else CONSUMER
    max_wait_ms, min_bytes, max_bytes, level = cursor.fields(_LIMITS)
    session = cursor.fields(_SESSION) if version >= SESSIONS else NO_SESSION
    positions: list[tuple[Key, Position]] = []
    topics: list[FetchTopic] = []
    turns = Turns()
    for _ in range(cursor.elements(compact)):
        topic = _topic(cursor, version, compact, ids_by_name)
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
    return ParsedFetch(replica_id, cluster_id, session[1], topics, wanted)


def _topic(
    cursor: Cursor, version: int, compact: bool, ids_by_name: Mapping[str, bytes]
) -> FetchTopic:
    if version >= TOPIC_IDS:
        return FetchTopic("", cursor.uuid(), [])
    name = cursor.text(compact)
    return FetchTopic(name, ids_by_name.get(name, b""), [])


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
