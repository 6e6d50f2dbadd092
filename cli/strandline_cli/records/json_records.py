"""A line of JSON as a record: the documents that `consume --format json` prints, or shorter ones.

`{"key": "a", "value": "b", "headers": {"source": "shop"}}`: text is UTF-8, and `key_base64` or
`value_base64` hold other bytes. A value that is not text (an object, a list, a number) is sent as
its JSON. null is null. The place that a record came from (`topic`, `partition`, `offset`,
`leader_epoch`) is not used.
"""

import binascii
from base64 import b64decode
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strandline_cli.records.line_records import BadLine, Headers

if TYPE_CHECKING:
    from strandline import Record

_PLACE: Final = ("topic", "partition", "offset", "leader_epoch", "timestamp_type")
_FIELDS: Final = ("key", "key_base64", "value", "value_base64", "headers", "timestamp")
_TIMESTAMP_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonParser:
    """Lines of JSON as records; a blank line is none."""

    headers: Headers = ()
    """Further headers of every record."""

    def __call__(self, line: bytes) -> "Record | None":
        if not line.strip():
            return None
        from strandline import Record

        document = _document(line)
        for name in document:
            if name not in _FIELDS and name not in _PLACE:
                near = get_close_matches(name, _FIELDS, 1)
                hint = f"do you mean {near[0]!r}?" if near else f"known: {', '.join(_FIELDS)}"
                raise BadLine(f"unknown field {name!r}; {hint}")
        if "value" not in document and "value_base64" not in document:
            raise BadLine('it has no value: add "value"; null makes a tombstone')
        return Record(
            value=_bytes(document, "value"),
            key=_bytes(document, "key"),
            headers=(*_headers(document.get("headers")), *self.headers),
            timestamp_ms=_timestamp(document.get("timestamp")),
        )


def _document(line: bytes) -> dict[str, Any]:
    """The fields of a line; a value that is not text as the bytes that stand there."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        document = {name: msgspec.json.decode(raw) for name, raw in fields.items()}
    except msgspec.ValidationError:
        raise BadLine('it is no JSON object, as in {"key": "a", "value": "b"}') from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise BadLine(f"it is not JSON ({why})") from None
    if not isinstance(document.get("value"), str | None):
        document["value"] = bytes(fields["value"])
    return document


def _bytes(document: dict[str, Any], name: str) -> bytes | None:
    """The bytes of a field, given as text or in base64."""
    text, encoded = document.get(name), document.get(f"{name}_base64")
    if encoded is not None:
        if text is not None:
            raise BadLine(f"both {name} and {name}_base64 are given: leave one out")
        try:
            return b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadLine(f"{name}_base64 is not base64 text") from None
    if text is None or isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise BadLine(f"{name} is neither text nor null: put it into quotes")
    return _utf8(text, name)


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{name} is no text in UTF-8: give {name}_base64") from None


def _headers(given: object) -> list[tuple[str, bytes | None]]:
    """Headers as an object of names and values, or as a list, which may repeat a name."""
    if given is None:
        return []
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise BadLine('headers are neither {"name": "value"} nor a list')
    headers = []
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise BadLine('a header is not {"name": "...", "value": "..."}')
        if unknown := set(each) - {"name", "value", "value_base64"}:
            raise BadLine(f"unknown field {min(unknown)!r} of a header")
        _utf8(each["name"], "the name of a header")
        headers.append((each["name"], _bytes(each, "value")))
    return headers


def _timestamp(given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _TIMESTAMP_MAX:
        raise BadLine(f"timestamp {given!r} is not a number of milliseconds since 1970")
    return given
