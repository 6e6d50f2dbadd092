"""The account in a gold commit: the rows that its windows consist of, and the result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from strandline_spark.cluster.offsets import OFFSET_MAX, from_json, to_json
from strandline_spark.errors import TableError
from strandline_spark.gold.watermark import GoldCommit

METADATA_KEY: Final = "strandline_gold"
METADATA_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Closed:
    """The state of a step after a commit: all that the next one needs of earlier commits."""

    commit: GoldCommit
    open_from: int | None = None
    """The earliest event time, below the watermark, of a row whose session was open; None without
    such a row, or with windows of a fixed length.
    """
    late_after: tuple[GoldCommit, ...] = ()
    """The earlier commits, of sessions, after which late rows came that may be read again. They
    tell which rows these were.
    """


@dataclass(frozen=True, slots=True)
class GoldAccount:
    """The account of one commit. Times are microseconds."""

    number: int
    """Number among the table's commits with rows; the first is 1."""
    closed: Closed
    previous: int | None
    """The watermark of the commit before; None for the first."""
    silver_id: str
    silver_version: int
    rows: int
    """Number of rows of the result."""
    late: int
    """Number of rows of silver that came since the commit before, and too late for a window."""
    definition: str
    """A hash of the step's computation."""
    updated: int | None = None
    """Number of earlier windows whose rows this commit replaced, because late rows came for them;
    None for a step that leaves late rows out.
    """
    version: int = -1
    """Version of the gold table."""

    @property
    def watermark(self) -> int:
        return self.closed.commit.watermark


def to_metadata(account: GoldAccount) -> dict[str, Any]:
    closed = account.closed
    return {
        "format": METADATA_FORMAT,
        "number": account.number,
        **_commit_to_json(closed.commit),
        "previous": account.previous,
        "silver_id": account.silver_id,
        "silver_version": account.silver_version,
        "rows": account.rows,
        "late": account.late,
        "definition": account.definition,
        "open_from": closed.open_from,
        "late_after": [_commit_to_json(one) for one in closed.late_after],
        **({} if account.updated is None else {"updated": account.updated}),
    }


def from_metadata(data: Any, file: str, version: int) -> GoldAccount:
    """Returns the account of a commit's `file`, from what delta-rs read; the inverse. Raises
    TableError unless one of our jobs wrote it.
    """
    try:
        if isinstance(data, str):
            data = json.loads(data)
        if data["format"] != METADATA_FORMAT:
            raise ValueError(f"format {data['format']!r}, known is {METADATA_FORMAT}")
        late_after = tuple(_commit_from_json(one) for one in data["late_after"])
        for name in ("silver_id", "definition"):
            if not isinstance(data[name], str):
                raise TypeError(f"{name} is {data[name]!r}")
        return GoldAccount(
            number=_whole(data, "number", 1),
            closed=Closed(_commit_from_json(data), _time_or_none(data, "open_from"), late_after),
            previous=_time_or_none(data, "previous"),
            silver_id=data["silver_id"],
            silver_version=_whole(data, "silver_version"),
            rows=_whole(data, "rows"),
            late=_whole(data, "late"),
            definition=data["definition"],
            updated=_whole(data, "updated") if "updated" in data else None,
            version=version,
        )
    except (KeyError, TypeError, ValueError, RecursionError) as why:
        raise TableError(
            f"{file} is no commit of a gold step ({type(why).__name__}: {why}): put the file back"
            " from a copy, or delete the table and have it computed again"
        ) from why


def _commit_to_json(commit: GoldCommit) -> dict[str, Any]:
    return {"watermark": commit.watermark, "ends": to_json(commit.ends)}


def _commit_from_json(data: Any) -> GoldCommit:
    return GoldCommit(_whole(data, "watermark", -OFFSET_MAX), from_json(data["ends"]))


def _time_or_none(data: Any, name: str) -> int | None:
    return None if data[name] is None else _whole(data, name, -OFFSET_MAX)


def _whole(data: Any, name: str, least: int = 0) -> int:
    value = data[name]
    if type(value) is not int or not least <= value <= OFFSET_MAX:
        raise ValueError(f"{name} is {value!r}")
    return value
