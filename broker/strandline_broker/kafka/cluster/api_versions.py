"""ApiVersions: the requests that this listener serves, and the cluster's features (KIP-35, KIP-511,
KIP-584, KIP-1242).

Java's producer lets the group's coordinator and the partitions' leaders add partitions to its
transactions only if the answer names `transaction.version` 2 as finalized (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.cluster.errors import REBOOTSTRAP_REQUIRED
from strandline_broker.kafka.request import by_hand
from strandline_broker.kafka.versions import API_VERSIONS, BY_KEY, SERVED
from strandline_broker.kafka.wire import INT64, Cursor, Writer

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

NONE: Final = 0
UNSUPPORTED_VERSION: Final = 35
INVALID_REQUEST: Final = 42
NAMES_ITS_SOFTWARE: Final = 3
NAMES_ITS_BROKER: Final = 5
NAMES_FEATURES: Final = 3
NAMES_FEATURES_FROM_ZERO: Final = 4
"""First version whose clients accept a supported feature with the lowest level 0."""
FEATURES_EPOCH: Final = 0
"""Epoch of the finalized features, which never change: clients keep those of the highest epoch."""
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_LEVELS: Final = (0, 2)
"""The lowest and the highest level; the highest is finalized."""
_SUPPORTED, _EPOCH, _FINALIZED = 0, 1, 2
"""Tags of the answer's fields."""
_API: Final = BY_KEY[API_VERSIONS]


class ApiVersionsCalls:
    def __init__(self, metadata: MetadataCache, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id

    @by_hand
    async def ApiVersions(self, request: Request) -> Buffers:
        version = request.version
        if version > _API.last:
            # A client that is newer than we are reads version 0, and tries again (KIP-511).
            return _answer(0, UNSUPPORTED_VERSION)
        cursor = Cursor(request.body)
        error = NONE
        if version >= NAMES_ITS_SOFTWARE:
            cursor.text(compact=True)
            cursor.text(compact=True)
            if version >= NAMES_ITS_BROKER:
                error = self._is_for_us(cursor.string(compact=True), cursor.int32())
            cursor.skip_tags()
        cursor.check_end()
        return _answer(version, error)

    def _is_for_us(self, cluster_id: str | None, node_id: int) -> int:
        """Returns the error for a client that means another cluster or broker (KIP-1242)."""
        known = self._metadata.cluster_id
        if cluster_id and known and cluster_id != known:
            return REBOOTSTRAP_REQUIRED
        if node_id not in (-1, self._node_id):
            return REBOOTSTRAP_REQUIRED
        return NONE


def _answer(version: int, error: int) -> Buffers:
    out = Writer(compact=_API.is_flexible(version))
    out.int16(error)
    out.length(len(SERVED))
    for api in sorted(SERVED):
        out.int16(api.key)
        out.int16(api.first)
        out.int16(api.last)
        out.no_tags()
    if version >= 1:
        out.int32(0)  # throttle time
    if version >= NAMES_FEATURES and error == NONE:
        out.tags(_features(version))
    else:
        out.no_tags()
    return out.buffers()


def _features(version: int) -> list[tuple[int, bytes]]:
    lowest, highest = TRANSACTION_LEVELS
    fields = [
        (_EPOCH, INT64.pack(FEATURES_EPOCH)),
        (_FINALIZED, _feature(highest, highest)),
    ]
    if version >= NAMES_FEATURES_FROM_ZERO:
        fields.insert(0, (_SUPPORTED, _feature(lowest, highest)))
    return fields


def _feature(first: int, second: int) -> bytes:
    """A list of the one feature with two levels."""
    out = Writer(compact=True)
    out.length(1)
    out.string(TRANSACTION_VERSION)
    out.int16(first)
    out.int16(second)
    out.no_tags()
    return b"".join(bytes(each) for each in out.buffers())
