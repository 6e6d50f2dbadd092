"""The format language of `consume -f`, as kcat's: directives and escapes compiled once, applied to
each record.

An unknown directive is refused when the format is compiled, before the first record is read.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from strandline_cli.errors import UsageMistake

DIRECTIVES: Final = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "k": "key",
    "v": "value",
    "s": "value, as kcat spells it",
    "T": "timestamp in milliseconds",
    "e": "leader epoch of the record's batch",
    "h": "headers, as name=value joined by commas",
    "K": "length of the key in bytes, -1 without one",
    "S": "length of the value in bytes, -1 without one",
    "%": "a percent sign",
}
_ESCAPES: Final = {
    "n": b"\n",
    "t": b"\t",
    "r": b"\r",
    "0": b"\0",
    "a": b"\a",
    "\\": b"\\",
}


class FormatError(UsageMistake):
    """The format cannot be compiled; the message says which part and what is accepted."""


class PrintableRecord(Protocol):
    """The fields of a record that are needed to print it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Piece = Callable[[PrintableRecord], bytes]


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: PrintableRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"" if value is None else value) for name, value in record.headers
    )


_PIECES: Final[dict[str, Piece]] = {
    "t": lambda r: r.topic.encode(),
    "p": lambda r: b"%d" % r.partition,
    "o": lambda r: b"%d" % r.offset,
    "k": lambda r: b"" if r.key is None else r.key,
    "v": lambda r: b"" if r.value is None else r.value,
    "s": lambda r: b"" if r.value is None else r.value,
    "T": lambda r: b"%d" % r.timestamp,
    "e": lambda r: b"%d" % r.leader_epoch,
    "h": _headers,
    "K": lambda r: _length(r.key),
    "S": lambda r: _length(r.value),
}


def compile_format(text: str) -> Piece:
    """A function that formats a record as bytes by `text`. Raises FormatError."""
    pieces: list[Piece] = []
    literal = bytearray()

    def end_literal() -> None:
        if literal:
            constant = bytes(literal)
            pieces.append(lambda _record: constant)
            literal.clear()

    for kind, letter in _tokens(text):
        if kind == "literal":
            literal += letter.encode()
        elif kind == "escape":
            literal += _ESCAPES[letter]
        elif kind == "byte":
            literal.append(int(letter, 16))
        else:
            end_literal()
            pieces.append(_PIECES[letter])
    end_literal()
    if len(pieces) == 1:
        return pieces[0]
    fixed = tuple(pieces)
    return lambda record: b"".join([piece(record) for piece in fixed])


def unescape(text: str) -> bytes:
    """Text with escapes and without directives, as a separator. Raises FormatError."""
    return b"".join(
        _ESCAPES[letter] if kind == "escape" else _byte_or_text(kind, letter)
        for kind, letter in _tokens(text.replace("%", "%%"))
    )


def _byte_or_text(kind: str, letter: str) -> bytes:
    return bytes([int(letter, 16)]) if kind == "byte" else letter.encode()


def _tokens(text: str) -> list[tuple[str, str]]:
    """The format as (kind, text): literal characters, escapes, \\xHH bytes and directives."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        sign, following = text[at], text[at + 1 : at + 2]
        if sign == "%":
            tokens.append(_directive(following, at))
            at += 2
        elif sign == "\\" and following == "x":
            digits = text[at + 2 : at + 4]
            if len(digits) != 2 or not all(c in "0123456789abcdefABCDEF" for c in digits):
                raise FormatError(rf"\x at position {at} needs two hexadecimal digits, as in \x1f")
            tokens.append(("byte", digits))
            at += 4
        elif sign == "\\":
            if following not in _ESCAPES:
                raise FormatError(
                    rf"unknown escape \{following} at position {at}; known: \n \t \r \0 \a \\ \xHH"
                )
            tokens.append(("escape", following))
            at += 2
        else:
            tokens.append(("literal", sign))
            at += 1
    return tokens


def _directive(letter: str, at: int) -> tuple[str, str]:
    if letter == "%":
        return "literal", "%"
    if letter not in _PIECES:
        known = " ".join(f"%{known}" for known in DIRECTIVES)
        raise FormatError(f"unknown directive %{letter} at position {at}; known: {known}")
    return "directive", letter
