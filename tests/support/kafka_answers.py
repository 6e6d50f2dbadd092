"""Kafka requests to one part of a listener's calls, encoded and decoded by kafka-python, and
compared with kio.
"""

from __future__ import annotations

from typing import Any

from strandline_broker.kafka import codec
from strandline_broker.kafka.headers import Header
from strandline_broker.kafka.request import Request
from strandline_broker.kafka.versions import BY_NAME
from support.kafka_calls import kio_decoded


def request_of(api_name: str, version: int, **fields: Any) -> Request:
    """The request with these fields, as kafka-python encodes it."""
    message = codec.load()[f"{api_name}Request"](**fields)
    return raw_request(api_name, version, bytes(message.encode(version=version)))


def raw_request(api_name: str, version: int, body: bytes) -> Request:
    header = Header(BY_NAME[api_name], version, 1, "client")
    return Request(header, memoryview(body), "10.0.0.7", None)


def kind(api_name: str, *names: str) -> Any:
    """The class of requests, or that of an element: `kind("Metadata", "MetadataRequestTopic")`."""
    found = codec.load()[f"{api_name}Request"]
    for name in names:
        found = getattr(found, name)
    return found


async def answer_bytes(part: Any, request: Request) -> bytes:
    """The body of the part's answer."""
    api = request.header.api
    method = getattr(part, api.name)
    if getattr(method, "is_by_hand", False):
        return b"".join(await method(request))
    message = codec.decode(api, request.version, request.body)
    return bytes(codec.encode(await method(request, message), request.version))


async def ask(part: Any, api_name: str, version: int, **fields: Any) -> Any:
    """The answer as kafka-python decodes it. kafka-python and kio encode it to the same bytes."""
    body = await answer_bytes(part, request_of(api_name, version, **fields))
    answer = codec.load()[f"{api_name}Response"].decode(body, version=version)
    answer._header = None  # as its constructor does, and its decoder does not
    assert bytes(answer.encode(version=version)) == body
    kio_decoded(api_name, "Response", version, body)
    return answer
