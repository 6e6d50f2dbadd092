"""Encoding of the hot messages to exactly the bytes that protobuf would make.

A message is a list of parts that are joined once, so records are copied once, directly from their
place. Fields are in the order of their numbers, and a field with its default is omitted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_proto import hot_messages as hot
    from strandline_proto.decompression import Buffer

Part = TypeVar(
    "Part", "hot.ProduceData", "hot.ProduceResult", "hot.FetchPartition", "hot.FetchResult"
)

_MINUS_ONE: Final = b"\xff" * 9 + b"\x01"
_TOPIC_ID: Final = 16
_BITS_64: Final = (1 << 64) - 1


def _number(number: int) -> bytes:
    """The number as a varint; a negative one has ten bytes."""
    if 0 <= number < 1 << 28:
        if number < 1 << 7:
            return bytes((number,))
        if number < 1 << 14:
            return bytes((number & 127 | 128, number >> 7))
        if number < 1 << 21:
            return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
        return bytes(
            (number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128, number >> 21)
        )
    if number == -1:
        return _MINUS_ONE
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(f"{number} is no int64")
    number &= _BITS_64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _long(tag: bytes, number: int) -> bytes:
    return tag + _number(number) if number != 0 else b""


@lru_cache(4096)
def _int(tag: bytes, number: int) -> bytes:
    """Partitions, epochs, codes and limits: cached, as the same values recur."""
    return _present(tag, number) if number != 0 else b""


def _present(tag: bytes, number: int) -> bytes:
    """An int32 that is written even if it is 0."""
    if not -1 << 31 <= number < 1 << 31:
        raise ValueError(f"{number} is no int32")
    return tag + _number(number)


def _topic(topic_id: bytes) -> bytes:
    if len(topic_id) == _TOPIC_ID:
        return _topic_of(topic_id)
    return _data(b"\x0a", topic_id) if topic_id else b""


@lru_cache(1024)
def _topic_of(topic_id: bytes) -> bytes:
    """The topic field of an id with the right length. Other ids, which a client may send, are not
    cached.
    """
    return _data(b"\x0a", topic_id)


def _data(tag: bytes, data: bytes) -> bytes:
    return tag + _number(len(data)) + data


def _text(tag: bytes, text: str) -> bytes:
    return _data(tag, text.encode()) if text else b""


def _leader(tag: bytes, leader: hot.CurrentLeader | None) -> bytes:
    if leader is None:
        return b""
    return _data(tag, _int(b"\x08", leader.leader_id) + _int(b"\x10", leader.leader_epoch))


def _nodes(tag: bytes, nodes: Sequence[hot.NodeEndpoint]) -> bytes:
    return b"".join(
        _data(
            tag,
            _int(b"\x08", node.node_id)
            + _text(b"\x12", node.host)
            + _int(b"\x18", node.port)
            + _text(b"\x22", node.rack),
        )
        for node in nodes
    )


def _topics(
    tag: bytes, partitions: Sequence[Part], encode: Callable[[Part, list[Buffer]], None]
) -> list[Buffer]:
    """One message for each run of partitions of one topic."""
    parts: list[Buffer] = []
    at, count = 0, len(partitions)
    while at < count:
        topic_id = partitions[at].topic_id
        within: list[Buffer] = [_topic(topic_id)]
        while at < count and partitions[at].topic_id == topic_id:
            encode(partitions[at], within)
            at += 1
        parts.append(tag + _number(sum(map(len, within))))
        parts += within
    return parts


def _around(before: bytes, tag: bytes, records: Buffer, behind: bytes, parts: list[Buffer]) -> None:
    """One partition's message: its records, unchanged, between the bytes before and after them."""
    size = len(records)
    if size > 0:
        before += tag + _number(size)
    parts.append(b"\x12" + _number(len(before) + size + len(behind)) + before)
    parts.append(records)
    parts.append(behind)


def produce_request(message: hot.ProduceRequest) -> bytes:
    correlation_id, acks, timeout_ms, partitions, transactional_id = message
    return b"".join(
        (
            _long(b"\x08", correlation_id),
            _int(b"\x10", acks),
            _int(b"\x18", timeout_ms),
            b"" if transactional_id is None else _data(b"\x22", transactional_id.encode()),
            *_topics(b"\x2a", partitions, _produce_data),
        )
    )


def _produce_data(data: hot.ProduceData, parts: list[Buffer]) -> None:
    _, index, records, epoch = data
    behind = b"" if epoch is None else _present(b"\x18", epoch)
    _around(_int(b"\x08", index), b"\x12", records, behind, parts)


def produce_response(message: hot.ProduceResponse) -> bytes:
    return b"".join(
        (
            _long(b"\x08", message.correlation_id),
            *_topics(b"\x12", message.partitions, _produce_result),
            _nodes(b"\x1a", message.node_endpoints),
        )
    )


def _produce_result(result: hot.ProduceResult, parts: list[Buffer]) -> None:
    body = (
        _int(b"\x08", result.partition)
        + _int(b"\x10", result.error_code)
        + _long(b"\x18", result.base_offset)
        + _long(b"\x20", result.log_append_time_ms)
        + _long(b"\x28", result.log_start_offset)
        + b"".join(
            _data(b"\x32", _int(b"\x08", each.batch_index) + _text(b"\x12", each.message))
            for each in result.record_errors
        )
        + _text(b"\x3a", result.error_message)
        + _leader(b"\x42", result.current_leader)
        + (b"\x48\x01" if result.appended else b"")
        + _int(b"\x50", result.leader_epoch)
    )
    parts.append(_data(b"\x12", body))


def fetch_request(message: hot.FetchRequest) -> bytes:
    return b"".join(
        (
            _long(b"\x08", message.correlation_id),
            _text(b"\x12", message.cluster_id),
            _replica(message.replica_state),
            _int(b"\x20", message.max_wait_ms),
            _int(b"\x28", message.min_bytes),
            _int(b"\x30", message.max_bytes),
            _int(b"\x38", message.isolation_level),
            _int(b"\x40", message.session_id),
            _int(b"\x48", message.session_epoch),
            *_topics(b"\x52", message.partitions, _fetch_partition),
            *_forgotten(message.forgotten),
        )
    )


def _replica(state: hot.ReplicaState | None) -> bytes:
    if state is None:
        return b""
    return _data(b"\x1a", _int(b"\x08", state.replica_id) + _long(b"\x10", state.replica_epoch))


def _fetch_partition(position: hot.FetchPartition, parts: list[Buffer]) -> None:
    _, partition, leader_epoch, offset, fetched_epoch, log_start, max_bytes = position
    body = (
        _int(b"\x08", partition)
        + _int(b"\x10", leader_epoch)
        + _long(b"\x18", offset)
        + _int(b"\x20", fetched_epoch)
        + _long(b"\x28", log_start)
        + _int(b"\x30", max_bytes)
    )
    parts.append(_data(b"\x12", body))


def _forgotten(keys: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """One message for each topic with forgotten partitions."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in keys:
        topics.setdefault(topic_id, []).append(partition)
    return [
        _data(
            b"\x5a",
            _topic(topic_id) + _data(b"\x12", b"".join(_present(b"", each) for each in partitions)),
        )
        for topic_id, partitions in topics.items()
    ]


def fetch_response(message: hot.FetchResponse) -> bytes:
    correlation_id, error_code, session_id, partitions, nodes, error_message = message
    return b"".join(
        (
            _long(b"\x08", correlation_id),
            _int(b"\x10", error_code),
            _int(b"\x18", session_id),
            *_topics(b"\x22", partitions, _fetch_result),
            _nodes(b"\x2a", nodes),
            _text(b"\x3a", error_message),
        )
    )


def _fetch_result(result: hot.FetchResult, parts: list[Buffer]) -> None:
    _, index, code, mark, stable, start, diverging, leader, preferred, records, why, aborted = (
        result
    )
    before = (
        _int(b"\x08", index)
        + _int(b"\x10", code)
        + _long(b"\x18", mark)
        + _long(b"\x20", stable)
        + _long(b"\x28", start)
    )
    if diverging is not None:
        before += _data(b"\x32", _int(b"\x08", diverging[0]) + _long(b"\x10", diverging[1]))
    before += _leader(b"\x3a", leader)
    if aborted:
        before += _aborted(b"\x42", aborted)
    before += _int(b"\x48", preferred)
    _around(before, b"\x52", records, _text(b"\x5a", why), parts)


def _aborted(tag: bytes, aborted: Sequence[hot.AbortedTransaction]) -> bytes:
    return b"".join(
        _data(tag, _long(b"\x08", producer_id) + _long(b"\x10", first_offset))
        for producer_id, first_offset in aborted
    )


def fetch_range_request(message: hot.FetchRangeRequest) -> bytes:
    return b"".join(
        (
            _topic(message.topic_id),
            _int(b"\x10", message.partition),
            _int(b"\x18", message.current_leader_epoch),
            _long(b"\x20", message.start_offset),
            _long(b"\x28", message.stop_offset),
            _int(b"\x30", message.isolation_level),
            _int(b"\x38", message.max_message_bytes),
        )
    )


def fetch_range_response(message: hot.FetchRangeResponse) -> bytes:
    size = len(message.records)
    return b"".join(
        (
            _int(b"\x08", message.error_code),
            _text(b"\x12", message.error_message),
            _long(b"\x18", message.base_offset),
            _long(b"\x20", message.next_offset),
            _int(b"\x28", message.leader_epoch),
            _aborted(b"\x32", message.aborted_transactions),
            b"\x3a" + _number(size) if size > 0 else b"",
            message.records,
            _long(b"\x40", message.log_start_offset),
            _long(b"\x48", message.high_watermark),
            _leader(b"\x52", message.current_leader),
            _long(b"\x58", message.last_stable_offset),
        )
    )
