"""Ready-made formats for keys and values: bytes, text, JSON, Avro, Protobuf.

A format turns values into bytes and back, so one object serves a producer (`value_serializer=`) and
a consumer (`value_deserializer=`). None is no value: it stands for a missing key or a tombstone,
and no format sees it. There is no registry: both sides have the schema.

JSON and Avro need the extras `strandline[json]` and `strandline[avro]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    TypeVar,
    get_origin,
    is_typeddict,
    overload,
)

from strandline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

T = TypeVar("T")
SHOWN_MAX: Final = 80
REGISTRY_HINT: Final = "; it begins with a zero byte, as records of a schema registry do"


class Format(Generic[T]):
    """Base class of formats: `serialize` and `deserialize` are each other's inverse.

    A format of your own overrides both, and raises any exception for a value or bytes that it
    cannot convert. The client adds topic, partition, offset and field.
    """

    def serialize(self, value: T) -> bytes:
        """Returns the bytes of a value."""
        raise ConfigurationError(f"{type(self).__name__} does not serialize")

    def deserialize(self, data: bytes) -> T:
        """Returns the value of bytes."""
        raise ConfigurationError(f"{type(self).__name__} does not deserialize")


Serializer = Format[T] | Callable[[T], bytes]
"""A format, or a function of one value that returns bytes."""
Deserializer = Format[T] | Callable[[bytes], T]
"""A format, or a function of bytes that returns a value."""


class Bytes(Format[bytes]):
    """Bytes as they are; everything else is refused."""

    def serialize(self, value: bytes) -> bytes:
        """Returns the bytes; a bytearray or memoryview is copied."""
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise _wrong("bytes", value)

    def deserialize(self, data: bytes) -> bytes:
        """Returns the bytes."""
        return data


class Text(Format[str]):
    """Text in an encoding, UTF-8 by default."""

    def __init__(self, encoding: str = "utf-8") -> None:
        try:
            "".encode(encoding)
        except (LookupError, TypeError):
            raise ConfigurationError(f"encoding={encoding!r} is not an encoding of text") from None
        self._encoding = encoding

    def serialize(self, value: str) -> bytes:
        """Returns the encoded text."""
        if not isinstance(value, str):
            raise _wrong("str", value)
        return value.encode(self._encoding)

    def deserialize(self, data: bytes) -> str:
        """Returns the decoded text."""
        return data.decode(self._encoding)


class Json(Format[T]):
    """JSON by msgspec; a struct, dataclass or other type is checked while it is read.

    Without a type, values are dicts, lists, text, numbers, booleans and None.
    """

    @overload
    def __init__(self, kind: type[T], *, strict: bool = True) -> None: ...
    @overload
    def __init__(self: Json[Any], kind: object = Any, *, strict: bool = True) -> None: ...

    def __init__(self, kind: object = Any, *, strict: bool = True) -> None:
        msgspec = _library("msgspec", "json", "Json")
        try:
            self._encode = msgspec.json.Encoder().encode
            self._decode = msgspec.json.Decoder(kind, strict=strict).decode
        except TypeError as error:
            raise ConfigurationError(f"Json: kind={kind!r} is no type of JSON: {error}") from error
        self._checked = _checked(kind)
        self._name = getattr(kind, "__name__", str(kind))

    def serialize(self, value: T) -> bytes:
        """Returns the JSON text. A value of another type than `kind` is refused."""
        if not isinstance(value, self._checked):
            raise _wrong(self._name, value)
        encoded: bytes = self._encode(value)
        return encoded

    def deserialize(self, data: bytes) -> T:
        """Returns the value. The error names the field, as `$.lines[2].price`."""
        try:
            value: T = self._decode(data)
        except ValueError as error:
            raise _with_hint(error, data) from error
        return value


class Avro(Format[Any]):
    """Avro by fastavro: one datum without a header, of a schema that both sides have.

    `writer_schema` is the schema of the bytes, if it is not `schema`. Its fields are then resolved
    to those of `schema`.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | list[Any] | str,
        *,
        writer_schema: Mapping[str, Any] | list[Any] | str | None = None,
    ) -> None:
        fastavro = _library("fastavro", "avro", "Avro")
        self._schema = _parsed(fastavro, "schema", schema)
        self._written_as = (
            None if writer_schema is None else _parsed(fastavro, "writer_schema", writer_schema)
        )
        self._write = fastavro.schemaless_writer
        self._read = fastavro.schemaless_reader
        self._validate = import_module("fastavro.validation").validate

    def serialize(self, value: Any) -> bytes:
        """Returns the datum. The error names the field whose value is not of the schema."""
        self._validate(value, self._schema, raise_errors=True)
        written = BytesIO()
        self._write(written, self._schema, value, strict_allow_default=True)
        return written.getvalue()

    def deserialize(self, data: bytes) -> Any:
        """Returns the value. Bytes beyond the datum are refused."""
        source = BytesIO(data)
        try:
            if self._written_as is None:
                value = self._read(source, self._schema, None)
            else:
                value = self._read(source, self._written_as, self._schema)
        except Exception as error:
            raise _with_hint(_not_of_schema(error), data) from error
        if source.tell() != len(data):
            extra = len(data) - source.tell()
            raise _with_hint(ValueError(f"{extra} bytes follow the datum of the schema"), data)
        return value


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...

    @classmethod
    def FromString(cls, data: bytes) -> Self: ...


M = TypeVar("M", bound=_Message)


class Protobuf(Format[M]):
    """Messages of one generated class."""

    def __init__(self, kind: type[M]) -> None:
        if not isinstance(kind, type) or not hasattr(kind, "FromString"):
            raise ConfigurationError(f"Protobuf: {kind!r} is not a class of messages")
        self._kind = kind

    def serialize(self, value: M) -> bytes:
        """Returns the message's bytes. A message of another class is refused."""
        if not isinstance(value, self._kind):
            raise _wrong(self._kind.__name__, value)
        return value.SerializeToString()

    def deserialize(self, data: bytes) -> M:
        """Returns the message."""
        try:
            return self._kind.FromString(data)
        except Exception as error:
            text = f"the bytes are no {self._kind.__name__}: {error}"
            raise _with_hint(ValueError(text), data) from error


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The policy `on_deserialization_error=DeadLetters("orders-dead")` of a consumer.

    The consumer sends a record that does not deserialize to this topic, with its key, value and
    headers as they were, and with the reason in further headers. It reads on once the record is
    acknowledged.
    """

    topic: str


QUICK: Final = (Bytes, Text, Json, Avro, Protobuf)
"""Formats that compute and never wait; the event loop runs them itself."""

_BY_NAME: Final[dict[object, Callable[[], Format[Any]]]] = {
    "bytes": Bytes,
    bytes: Bytes,
    "str": Text,
    str: Text,
    "json": Json,
}
"""The types too: `str(b"a")` and `bytes(5)` convert, but to what no reader wants."""


def format_or_function(option: str, given: object) -> Format[Any] | Callable[[Any], Any] | None:
    """Returns what an option of a client names. Raises ConfigurationError."""
    made = _BY_NAME.get(given) if isinstance(given, str | type) else None
    if made is not None:
        return made()
    if given is None or isinstance(given, Format):
        return given
    if isinstance(given, type) and issubclass(given, Format):
        raise ConfigurationError(f"{option}={given.__name__} is a class; write {given.__name__}()")
    if callable(given):
        return given
    raise ConfigurationError(
        f"{option}={given!r} is neither a function nor a format of strandline.serialization; "
        "'bytes', 'str' and 'json' name formats too"
    )


def _library(name: str, extra: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs {name}, which is not installed: pip install 'strandline[{extra}]'"
        ) from error


def _checked(kind: object) -> type | tuple[type, ...]:
    """The classes whose instances a typed format serializes."""
    if is_typeddict(kind):
        return dict
    found = get_origin(kind) or kind
    if found is float:
        return float, int
    if isinstance(found, type) and found.__module__ not in ("typing", "types"):
        return found
    return object


def _parsed(fastavro: Any, option: str, schema: object) -> Any:
    try:
        given = import_module("json").loads(schema) if isinstance(schema, str) else schema
        return fastavro.parse_schema(given)
    except Exception as error:
        raise ConfigurationError(f"Avro: {option} is no Avro schema: {error!r}") from error


def _not_of_schema(error: Exception) -> ValueError:
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ValueError(f"the bytes are not of the schema ({why})")


def _with_hint(error: ValueError, data: bytes) -> ValueError:
    return ValueError(f"{error}{REGISTRY_HINT}") if data[:1] == b"\0" else error


def _wrong(wanted: str, value: object) -> TypeError:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}..."
    return TypeError(f"{shown} is {type(value).__name__}, not {wanted}")
