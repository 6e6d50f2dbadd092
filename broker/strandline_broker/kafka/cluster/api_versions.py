"""ApiVersions: the requests that this listener serves (KIP-35, KIP-511, KIP-1242)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.cluster.errors import REBOOTSTRAP_REQUIRED
from strandline_broker.kafka.request import by_hand
from strandline_broker.kafka.versions import API_VERSIONS, BY_KEY, SERVED
from strandline_broker.kafka.wire import Cursor, Writer

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

NONE: Final = 0
UNSUPPORTED_VERSION: Final = 35
INVALID_REQUEST: Final = 42
NAMES_ITS_SOFTWARE: Final = 3
NAMES_ITS_BROKER: Final = 5
NO_FEATURES_EPOCH: Final = -1
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
    out.no_tags()
    return out.buffers()
