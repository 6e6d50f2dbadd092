"""Kafka's messages: kafka-python's schemas, decoded strictly here and encoded by kafka-python.

kafka-python's own decoder accepts lengths beyond the end and varints of any length, and copies the
rest of the request for each section of tagged fields. So requests are decoded by `decoding.py` over
the same schemas. The import costs 0.2 s and 21 MB: `load` runs off the event loop, at the first
connection.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka.decoding import decoder_of
from strandline_broker.kafka.wire import Cursor

if TYPE_CHECKING:
    from strandline_broker.kafka.versions import Api

LARGE: Final = 1_000
"""Elements that take some milliseconds to encode."""
MESSAGE_LENGTH_MAX: Final = 4_000
"""Characters of an error message, which may quote a name from the request. Before the flexible
versions, a text has 32,767 bytes at most.
"""
_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")


@functools.cache
def load() -> dict[str, Any]:
    """Returns kafka-python's message classes by their names, such as `MetadataRequest`."""
    import importlib

    from kafka.protocol.api_message import ApiMessage

    found: dict[str, Any] = {}
    for name in _MODULES:
        module = importlib.import_module(f"kafka.protocol.{name}")
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, ApiMessage) and each is not ApiMessage:
                found[each.__name__] = each
    return found


def decode(api: Api, version: int, body: memoryview) -> Any:
    """Returns the request as an object with the fields of Kafka's schema, in snake case.

    A field that the version does not have has its default. Raises MalformedRequest for a body that
    does not end with its last field.
    """
    cursor = Cursor(body)
    message = _decoder(api, version)(cursor)
    cursor.check_end()
    return message


@functools.cache
def _decoder(api: Api, version: int) -> Any:
    return decoder_of(load()[f"{api.name}Request"], version, api.is_flexible(version))


def answer_of(api_name: str) -> Any:
    """Returns the class of answers of that request, such as `MetadataResponse`. The classes of the
    elements are its attributes: `answer_of("Metadata").MetadataResponseTopic`. A field that is not
    given has the schema's default; a topic id is given as 32 hexadecimal digits.
    """
    return load()[f"{api_name}Response"]


def message_of(error: Exception) -> str:
    """Returns the error's text, as much of it as every version holds."""
    return str(error)[:MESSAGE_LENGTH_MAX]


def is_large(message: Any) -> bool:
    """True for an answer with more than `LARGE` elements in its arrays: the event loop would be
    busy for long with its encoding.
    """
    left, parts = LARGE, [message]
    while parts:
        part = parts.pop()
        for name in part._struct.fields:
            value = getattr(part, name)
            if isinstance(value, list):
                left -= len(value)
                if left < 0:
                    return True
                parts += [each for each in value if hasattr(each, "_struct")]
    return False


def encode(message: Any, version: int) -> bytes:
    """Returns the body of an answer in the given version."""
    encoded: bytes = message.encode(version=version)
    return encoded
