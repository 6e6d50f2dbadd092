"""The output of commands: one JSON document for scripts, tables for people, notes and errors on
stderr.
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from strandline_cli.options import Format


def write_line(line: str) -> None:
    """A line on stdout, written at once."""
    print(line, flush=True)


def emit_json(document: Any) -> None:
    """One JSON document on stdout."""
    write_line(json.dumps(document, indent=2, ensure_ascii=False))


def emit_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """A table on stdout: framed at a terminal, plain aligned columns in a pipe."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _emit_framed(columns, cells, title)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), *cells]:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        write_line("  ".join(padded).rstrip())


def _emit_framed(columns: Sequence[str], cells: list[list[str]], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def emit_done(output: Format, document: Any, line: str) -> None:
    """Print the change that a command made: a document for scripts, a line for people."""
    if output is Format.JSON:
        emit_json(document)
    else:
        write_line(line)


def note(line: str) -> None:
    """A line for a person at the terminal, if any; never part of the output."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def note_pending(brokers: Sequence[int]) -> None:
    """Name the brokers that have not applied a change yet, if any."""
    if brokers:
        note(f"not yet heard of by: broker {listed(brokers)}; it is stored and will reach them")


def listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
