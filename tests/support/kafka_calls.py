"""Calls of a Kafka listener from bytes to bytes, checked against two other codecs: kafka-python's
own encoder and decoder, and kio's.
"""

from __future__ import annotations

import importlib
import io
import re
from typing import TYPE_CHECKING, Any, cast

from kio.serial import entity_reader, entity_writer

from strandline_broker.kafka import codec
from strandline_broker.kafka.headers import Header
from strandline_broker.kafka.request import Request
from strandline_broker.kafka.versions import BY_NAME

if TYPE_CHECKING:
    from strandline_broker.kafka.wire import Buffers


class KafkaCalls:
    """The calls of some parts of a listener."""

    def __init__(self, *parts: Any) -> None:
        codec.load()
        self._methods = {
            name: getattr(part, name)
            for part in parts
            for name in dir(part)
            if name[0].isupper() and name in BY_NAME
        }

    async def bytes_of(
        self, name: str, version: int, body: bytes, *, client_id: str = "client", host: str = "::1"
    ) -> bytes:
        """The answer's body to the request's."""
        api, method = BY_NAME[name], self._methods[name]
        request = Request(Header(api, version, 1, client_id), memoryview(body), host, None)
        if getattr(method, "is_by_hand", False):
            buffers = cast("Buffers", await method(request))
            return b"".join(bytes(each) for each in buffers)
        message = codec.decode(api, version, request.body)
        answer = await method(request, message)
        if isinstance(answer, list):
            return b"".join(answer)
        return bytes(codec.encode(answer, version))

    async def __call__(self, name: str, version: int, **fields: Any) -> Any:
        """The answer to the request with these fields, as kio's object if kafka-python has no
        schema of the request, else as kafka-python's.
        """
        body = request_bytes(name, version, **fields)
        answer = await self.bytes_of(name, version, body)
        found = kio_decoded(name, "Response", version, answer)
        python = codec.load().get(f"{name}Response")
        if python is None:
            return found
        return python.decode(answer, version=version)


def request_bytes(name: str, version: int, **fields: Any) -> bytes:
    """The request by kafka-python's encoder, which kio reads and writes in the same bytes; by kio's
    alone where kafka-python has no schema.
    """
    if f"{name}Request" not in codec.load():
        return kio_encoded(name, "Request", version, **fields)
    encoded = python_bytes(name, version, **fields)
    kio_decoded(name, "Request", version, encoded)
    return encoded


def python_bytes(name: str, version: int, **fields: Any) -> bytes:
    """The request by kafka-python's encoder alone: kio does not know every value of a number."""
    python = codec.load()[f"{name}Request"]
    return bytes(_built(python, python._struct, fields).encode(version=version))


def _built(made: Any, schema: Any, fields: dict[str, Any]) -> Any:
    """An object of kafka-python's with these fields; elements of arrays are dictionaries."""
    values = dict(fields)
    for field in schema.fields.values():
        value = values.get(field.name)
        if isinstance(value, list) and field.is_struct_array():
            values[field.name] = [
                _built(field.data_class, field.array_of, element) for element in value
            ]
    return made(**values)


def kio_decoded(name: str, kind: str, version: int, encoded: bytes) -> Any:
    """The message by kio's decoder, which reads all bytes; its encoder writes the same."""
    message = kio_class(name, kind, version)
    found, size = entity_reader(message)(encoded, 0)
    assert size == len(encoded), (name, version, size, len(encoded))
    assert _written(message, found) == encoded
    return found


def kio_encoded(name: str, kind: str, version: int, **fields: Any) -> bytes:
    message = kio_class(name, kind, version)
    return _written(message, message(**fields))


def kio_class(name: str, kind: str, version: int) -> Any:
    module = f"kio.schema.{_snake(name)}.v{version}.{kind.lower()}"
    return getattr(importlib.import_module(module), f"{name}{kind}")


def _written(message: Any, found: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(message)(out, found)
    return out.getvalue()


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
