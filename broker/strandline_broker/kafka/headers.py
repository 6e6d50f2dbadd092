"""The headers of requests and answers (RequestHeader 1 and 2, ResponseHeader 0 and 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.kafka.versions import API_VERSIONS, BY_KEY
from strandline_broker.kafka.wire import INT32, NO_TAGS, Cursor, MalformedRequest

if TYPE_CHECKING:
    from strandline_broker.kafka.versions import Api


class Header(NamedTuple):
    api: Api
    version: int
    correlation_id: int
    client_id: str | None


def read_header(frame: memoryview) -> tuple[Header, memoryview]:
    """Returns the header and the request's body.

    Raises MalformedRequest for bytes that are no header, and for a key or version that is not
    served. A version of ApiVersions that is not known is no error: it has an answer of its own, and
    the rest of its bytes is not read.
    """
    cursor = Cursor(frame)
    key, version, correlation_id = cursor.int16(), cursor.int16(), cursor.int32()
    api = BY_KEY.get(key)
    if api is None:
        raise MalformedRequest(f"requests of key {key} are not served (version {version})")
    if not api.first <= version <= api.last:
        if key == API_VERSIONS and version >= 0:
            return Header(api, version, correlation_id, None), frame[cursor.end :]
        raise MalformedRequest(
            f"{api.name} is served in the versions {api.first} to {api.last},"
            f" the request has version {version}"
        )
    client_id = cursor.string(compact=False)
    if api.is_flexible(version):
        cursor.skip_tags()
    return Header(api, version, correlation_id, client_id), frame[cursor.pos :]


def answer_header(header: Header) -> bytes:
    """Returns the answer's header. That of ApiVersions has no tagged fields in any version, so that
    a client can read the answer to a version that the broker does not know (KIP-511).
    """
    encoded = INT32.pack(header.correlation_id)
    api = header.api
    if api.key != API_VERSIONS and api.is_flexible(header.version):
        return encoded + NO_TAGS
    return encoded
