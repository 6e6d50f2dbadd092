"""Bounds on the contents of one request, checked in its bytes before protobuf parses them.

Two million elements take a tenth of a second to parse and many seconds to answer. The event loop
does nothing else meanwhile, and the broker gets fenced. So:

- Each method has a limit of bytes.
- Each repeated field has a limit of elements, summed over the whole request.
- A request above a limit is refused with the field, its number of elements and the limit.
- A request below the limits is answered with pauses (`strandline_broker.hosts.serving.turns`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from strandline_broker.rpc.malformed import MalformedRequest
from strandline_proto.errors import InvalidRequest
from strandline_proto.v1 import services_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import grpc
    from google.protobuf.descriptor import Descriptor, MethodDescriptor

ELEMENTS_MAX: Final = 10_000
"""Limit of elements in a repeated field that `_ELEMENTS` does not name."""
_ELEMENTS: Final = {
    # The partitions of a fetch session, which its first request may name all at once.
    "FetchRequest.topics": 100_000,
    "FetchRequest.topics.partitions": 100_000,
    "FetchRequest.forgotten": 100_000,
    "FetchRequest.forgotten.partitions": 100_000,
    "ProduceRequest.topics": 5_000,
    "ProduceRequest.topics.partitions": 5_000,
    # Each is answered with some sixty keys.
    "DescribeConfigsRequest.resources": 1_000,
    # The partitions of one member: numbers only.
    "ConsumerGroupHeartbeatRequest.topic_partitions.topic_partitions.partitions": 100_000,
    "GroupSessionRequest.heartbeat.topic_partitions.topic_partitions.partitions": 100_000,
    # Full lists of a broker's faults.
    "BrokerHeartbeatRequest.offline_replicas": 100_000,
    "BrokerHeartbeatRequest.losses": 100_000,
    "BrokerHeartbeatRequest.refused_truncations": 100_000,
}
_LEAST: Final = {"": ELEMENTS_MAX} | {
    path.partition(".")[0]: most for path, most in _ELEMENTS.items() if most < ELEMENTS_MAX
}
"""The lowest limit of each message that has one below the others'."""
PUSHED_MAX: Final = 200_000
"""Limit of elements in each field of a push, which holds the metadata of a whole cluster."""
BYTES_MAX: Final = 8 << 20
"""Limit of bytes in a request that `_BYTES` does not name."""
_BYTES: Final = {"ProduceRequest": 64 << 20, "LeaderAndIsrRequest": 64 << 20}
"""These are as large as the transport lets them be: records, and the metadata of a cluster."""
_OPAQUE: Final = (
    "LeaderAndIsrRequest.leader_and_isr.partitions",
    "LeaderAndIsrRequest.update_metadata.topics.partitions",
)
"""Elements that are looked into only if they are large: a push has too many to walk through all."""
OPAQUE_BYTES_MAX: Final = 512
"""Limit of bytes in an opaque element, which has some hundred bytes in a cluster with three
replicas of each partition.
"""
FIELDS_MAX: Final = 400_000
"""Limit of fields that are counted in one request, known or not. A long number takes as much time
as several short ones, and counts as so many.
"""
COUNTED_MAX: Final = 20_000
"""Limit of fields that are counted after a limit was passed, to report the excess."""
_SHORT: Final = 4
"""Bytes of a tag and a number that count as another field."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_HIGH_BYTES: Final = bytes(range(128, 256))
_FIXED_SIZES: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}
_LENGTH_TYPES: Final = (
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_MESSAGE,
)


class RequestTooLarge(MalformedRequest):
    """A request of this method exceeds its bounds, and was not parsed."""

    def __init__(self, method: MethodDescriptor, why: str) -> None:
        super().__init__(why)
        self.method = method


class _Field(NamedTuple):
    path: str
    """`topics.partitions`, as the refusal names it."""
    most: int | None
    """None: it is not repeated."""
    packed_size: int
    """Bytes of one packed element, 0 for a varint; -1: elements are never packed."""
    inner: _Fields | None
    """The message that holds further repeated fields."""
    looked_into_above: int
    """Bytes of an element whose inside is not walked through."""


_Fields = dict[int, _Field]


def bounded(
    method: MethodDescriptor, deserialize: Callable[[bytes], Any]
) -> Callable[[bytes], Any]:
    """`deserialize`, which raises RequestTooLarge for bytes above the limits of the request."""
    name = method.input_type.name
    bytes_max = _BYTES.get(name, BYTES_MAX)
    # An element takes a byte at least.
    free = min(most for path, most in _LEAST.items() if path in ("", name))

    def read(data: bytes) -> Any:
        size = len(data)
        if size > bytes_max:
            raise RequestTooLarge(
                method, f"it has {size} bytes, and at most {bytes_max} are possible: send several"
            )
        if size > free and (why := _excess(data, _fields_of(method.input_type))):
            raise RequestTooLarge(method, why)
        return deserialize(data)

    return read


def bound_handlers(
    service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """The handlers of one of our services, which refuse to parse a request above the limits."""
    methods = services_pb2.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods_by_name
    return {
        name: handler._replace(  # type: ignore[attr-defined] # it is a named tuple
            request_deserializer=bounded(methods[name], deserialize)
        )
        for name, handler in handlers.items()
        if (deserialize := handler.request_deserializer) is not None
    }


def refusal(refused: RequestTooLarge) -> Any | None:
    """The method's answer with the refusal; None if it has no error for the whole request."""
    output = refused.method.output_type
    if refused.method.server_streaming or "error_message" not in output.fields_by_name:
        return None
    return GetMessageClass(output)(error_code=InvalidRequest.code, error_message=str(refused))


def _most(message: str, path: str) -> int:
    if message == "LeaderAndIsrRequest":
        return PUSHED_MAX
    return _ELEMENTS.get(f"{message}.{path}", ELEMENTS_MAX)


@cache
def _fields_of(message: Descriptor, path: str = "", root: str = "") -> _Fields:
    """The repeated fields of a message, and those within which something is repeated."""
    root = root or message.name
    found: _Fields = {}
    for field in message.fields:
        where = f"{path}.{field.name}" if path else field.name
        inner = None
        if field.message_type is not None:
            inner = _fields_of(field.message_type, where, root) or None
        if field.is_repeated or inner is not None:
            can_pack = field.type not in _LENGTH_TYPES
            found[field.number] = _Field(
                where,
                _most(root, where) if field.is_repeated else None,
                _FIXED_SIZES.get(field.type, 0) if can_pack else -1,
                inner,
                OPAQUE_BYTES_MAX if f"{root}.{where}" in _OPAQUE else 0,
            )
    return found


class _Stop(Exception):
    """Ends the count early; `what`, where no limit was passed."""

    def __init__(self, what: str) -> None:
        self.what = what


def _excess(data: bytes, fields: _Fields) -> str | None:
    """The excess of the message, if any. Bytes that do not parse are left to protobuf."""
    walk = _Walk(data)
    try:
        walk.through(0, len(data), fields)
    except IndexError:
        pass
    except _Stop as stop:
        if walk.over is None:
            return f"it has {stop.what}"
    over = walk.over
    if over is None:
        return None
    number = f"{'at least ' if walk.left < 0 else ''}{walk.counts[over.path]}"
    return (
        f"{over.path} has {number} elements, and at most {over.most} are possible in one request:"
        " send several"
    )


class _Walk:
    """Counts the elements of repeated fields in the bytes of one message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.counts: dict[str, int] = {}
        self.over: _Field | None = None
        """The first field that has passed its limit."""
        self.left = FIELDS_MAX

    def through(self, at: int, end: int, fields: _Fields) -> None:
        data = self._data
        while at < end:
            if self.left <= 0:
                self.left = -1
                raise _Stop(f"more than {FIELDS_MAX} fields: send several")
            begin = at
            tag, at = _number(data, at)
            wire, field = tag & 7, fields.get(tag >> 3)
            start = at
            if wire == _LENGTH:
                size, start = _number(data, at)
                at = start + size
            elif wire == _VARINT:
                _, at = _number(data, at)
                start = at
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
            else:
                raise _Stop("a group among its fields, which no message of this protocol has")
            self.left -= 1 + (start - begin) // _SHORT
            if field is not None:
                self._count(field, wire, start, at)
                if field.inner and wire == _LENGTH and at - start > field.looked_into_above:
                    self.through(start, min(at, end), field.inner)

    def _count(self, field: _Field, wire: int, start: int, end: int) -> None:
        if field.most is None:
            return
        number = 1
        if wire == _LENGTH and field.packed_size == 0:
            number = len(self._data[start:end].translate(None, _HIGH_BYTES))
        elif wire == _LENGTH and field.packed_size > 0:
            number = (end - start) // field.packed_size
        count = self.counts[field.path] = self.counts.get(field.path, 0) + number
        if count > field.most and self.over is None:
            self.over = field
            self.left = min(self.left, COUNTED_MAX)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    number = data[at]
    at += 1
    if number < 128:
        return number, at
    number &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise IndexError  # protobuf reports the fault
