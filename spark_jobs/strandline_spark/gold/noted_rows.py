"""The note of a gold step's verification: up to which commit the table was found sound, with a hash
over its rows until then.

The next verification computes only later commits, if the rows still have that hash and the log
still has the account of the commit. Of a step that computes windows again the note has a hash for
each window.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.gold.account import to_metadata
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.gold.account import GoldAccount

_FILE: Final = os.path.join("_ops", "verified", "step.json")


@dataclass(frozen=True, slots=True)
class GoldNote:
    """The commits that a verification has found sound."""

    number: int
    """Number of the newest verified commit."""
    account: str
    """Hash over its account."""
    rows: str
    """Hash over the rows that it and earlier commits added."""
    windows: Mapping[str, str] = field(default_factory=dict)
    """Hash over the rows of each window, by its end; of a step that computes windows again."""

    def fits(self, account: GoldAccount) -> bool:
        return self.number == account.number and self.account == account_hash(account)


def read(table: str, id_: str) -> GoldNote | None:
    """Returns the note; None if there is none, or if it is of another table or damaged."""
    try:
        found = json.loads(files.read_text(os.path.join(table, _FILE)))
        windows = {str(end): str(one) for end, one in found["windows"].items()}
        note = GoldNote(int(found["number"]), str(found["account"]), str(found["rows"]), windows)
        return note if found["seal"] == _seal(note, id_) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def write(table: str, id_: str, note: GoldNote) -> None:
    """Writes the note durably. A folder that cannot be written is left as it is."""
    path = os.path.join(table, _FILE)
    found = {
        "number": note.number,
        "account": note.account,
        "rows": note.rows,
        "windows": dict(note.windows),
        "seal": _seal(note, id_),
    }
    with contextlib.suppress(OSError):
        files.write_over(path, json.dumps(found))
        sync(os.path.dirname(path))


def account_hash(account: GoldAccount) -> str:
    text = json.dumps(to_metadata(account), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_hash(tables: Iterable[list[dict[str, Any]]]) -> str:
    """Returns a hash over rows, in any order."""
    lines = sorted(repr(sorted(row.items())) for rows in tables for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _seal(note: GoldNote, id_: str) -> str:
    windows = sorted(note.windows.items())
    said = repr((note.number, note.account, note.rows, windows, id_))
    return hashlib.sha256(said.encode()).hexdigest()
