"""A line of the input as a record: its value, or key and value, with what all records share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_cli.errors import CliError, UsageMistake

if TYPE_CHECKING:
    from strandline import Record

Pair = tuple[bytes | None, bytes | None]
Headers = Sequence[tuple[str, bytes | None]]


class BadLine(CliError):
    """A line that is no record; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineParser:
    """Lines as values, or as keys and values at the first separator."""

    separator: bytes | None = None
    null_marker: bytes | None = None
    """A key or value that equals it is null."""
    key: bytes | None = None
    headers: Headers = ()

    @property
    def is_plain(self) -> bool:
        """True if each line is the value of a record that has nothing else."""
        return (
            self.separator is None
            and self.null_marker is None
            and self.key is None
            and not self.headers
        )

    def __call__(self, line: bytes) -> "Pair | Record":
        key, value = self.key, line
        if self.separator is not None:
            before, found, after = line.partition(self.separator)
            if found:
                key, value = before, after
        known_key = None if key is None or key == self.null_marker else key
        known_value = None if value == self.null_marker else value
        if not self.headers:
            return (known_key, known_value)
        from strandline import Record

        return Record(known_value, known_key, tuple(self.headers))


def parse_headers(texts: Sequence[str]) -> Headers:
    """The headers of `--header NAME=VALUE`. Raises UsageMistake."""
    headers = []
    for text in texts:
        name, sign, value = text.partition("=")
        if sign == "" or name == "":
            raise UsageMistake(f"--header {text!r} is not NAME=VALUE, as in source=shop")
        headers.append((name, value.encode()))
    return tuple(headers)
