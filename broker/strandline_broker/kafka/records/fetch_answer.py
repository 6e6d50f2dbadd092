"""The answer to a Fetch request, written by hand: a list of buffers, of which the records are not
copied.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.records.leader_hints import HINTED, endpoints_tag, leader_tag
from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.kafka.wire import NO_TAGS, Writer
from strandline_proto.batch import iter_headers
from strandline_proto.decompression import Compression
from strandline_proto.errors import (
    NONE,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from strandline_broker.hosts.common.fetch_messages import FetchedPartition
    from strandline_broker.kafka.records.fetch_request import FetchTopic
    from strandline_broker.kafka.records.leader_hints import Address
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import Buffer

LOG_START: Final = 5
STORAGE_ERRORS: Final = 6
"""First version whose clients know KafkaStorageError."""
SESSIONS: Final = 7
ZSTD: Final = 10
RACKS: Final = 11
"""First version whose answers name a replica to read from."""
HISTORIES: Final = 12
"""First version whose clients name the epoch of their last record."""
TOPIC_IDS: Final = 13
HINTS: Final = 16
"""First version whose answers name the current leader."""
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
_API: Final = BY_NAME["Fetch"]
_RESULT_4: Final = Struct(">ihqq")
_RESULT_5: Final = Struct(">ihqqq")
_DIVERGING: Final = Struct(">iq")
_ABORTED: Final = Struct(">qq")
_NO_OFFSETS: Final = (-1, -1, -1)


async def fetch_answer(
    version: int,
    topics: Sequence[FetchTopic],
    found: Iterator[FetchedPartition],
    *,
    code: int,
    committed: bool,
    nodes: Callable[[Iterable[int]], Sequence[Address]],
    errors: list[int],
) -> Buffers:
    """Returns the body of the answer.

    `found` has the results of the topics that are known. `code`: the error of the request, of each
    partition in a version whose answers have no place for it. `committed`: the reader skips aborted
    transactions, and gets a list of them. `nodes` returns the addresses of those brokers. `errors`
    gets the codes of the answer's errors.
    """
    out = Writer(compact=_API.is_flexible(version))
    hinted: dict[int, None] = {}
    turns = Turns()
    out.int32(0)  # throttle time
    if version >= SESSIONS:
        out.int16(code)
        out.int32(0)  # no session
    out.length(len(topics))
    for topic in topics:
        if version >= TOPIC_IDS:
            out.raw(topic.topic_id)
        else:
            out.string(topic.name)
        out.length(len(topic.partitions))
        for index in topic.partitions:
            await turns.took()
            if code != NONE:
                refused = _write_error(out, version, index, code)
            elif not topic.topic_id:
                refused = _write_error(out, version, index, UnknownTopicOrPartition.code)
            else:
                refused = _write_partition(out, version, index, next(found), committed, hinted)
            if refused != NONE:
                errors.append(refused)
        out.no_tags()
    known = nodes(hinted) if hinted else ()
    if known:
        out.tags([(0, endpoints_tag(known))])
    else:
        out.no_tags()
    return out.buffers()


def _write_error(out: Writer, version: int, index: int, code: int) -> int:
    """Writes a partition without records and offsets; returns the code."""
    if version >= LOG_START:
        out.raw(_RESULT_5.pack(index, code, *_NO_OFFSETS))
    else:
        out.raw(_RESULT_4.pack(index, code, *_NO_OFFSETS[:2]))
    _write_rest(out, version, b"", committed=False)
    out.no_tags()
    return code


def _write_rest(
    out: Writer,
    version: int,
    records: Buffer,
    *,
    committed: bool,
    aborted: Sequence[tuple[int, int]] = (),
) -> None:
    """Aborted transactions, the replica to read from, and the records."""
    if committed and aborted:
        _write_aborted(out, version, aborted)
    else:
        out.raw(_before_records(version, committed))
    if records:
        out.view(records)
    else:
        out.length(0)


def _write_aborted(out: Writer, version: int, aborted: Sequence[tuple[int, int]]) -> None:
    out.length(len(aborted))
    for each in aborted:
        out.raw(_ABORTED.pack(*each))
        out.no_tags()
    if version >= RACKS:
        out.int32(-1)


@cache
def _before_records(version: int, committed: bool) -> Buffer:
    out = Writer(compact=_API.is_flexible(version))
    out.length(0 if committed else -1)
    if version >= RACKS:
        out.int32(-1)
    return b"".join(out.buffers())


def _write_partition(
    out: Writer,
    version: int,
    index: int,
    found: FetchedPartition,
    committed: bool,
    hinted: dict[int, None],
) -> int:
    """Returns the code of the partition's error."""
    records = found.records
    if version < ZSTD and records:
        records = _before_zstd(records)
        if not records:
            return _write_error(out, version, index, UNSUPPORTED_COMPRESSION_TYPE)
    error = found.error
    if error is not None:
        code = _code_for(version, error.code)
        if version < HINTS or found.leader is None or code not in HINTED:
            return _write_error(out, version, index, code)
        out.raw(_RESULT_5.pack(index, code, *_NO_OFFSETS))
        _write_rest(out, version, b"", committed=False)
        hinted[found.leader.broker_id] = None
        out.tags([(1, leader_tag(found.leader))])
        return code
    high_watermark, stable, log_start = found.offsets
    if version >= LOG_START:
        out.raw(_RESULT_5.pack(index, NONE, high_watermark, stable, log_start))
    else:
        out.raw(_RESULT_4.pack(index, NONE, high_watermark, stable))
    _write_rest(out, version, records, committed=committed, aborted=found.aborted)
    if found.diverging is not None and version >= HISTORIES:
        out.tags([(0, _DIVERGING.pack(*found.diverging) + NO_TAGS)])
    else:
        out.no_tags()
    return NONE


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
