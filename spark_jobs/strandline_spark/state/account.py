"""The account in a commit of a state table: how much of silver it holds, and what it changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.offsets import OFFSET_MAX, from_json, to_json
from strandline_spark.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.cluster.offsets import TopicPartition

METADATA_KEY: Final = "strandline_state"
METADATA_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class StateAccount:
    """The account of one commit."""

    number: int
    """Number among the commits of the step; the first is 1."""
    ends: Mapping[TopicPartition, int]
    """The fences: the table holds each partition of silver up to this offset."""
    silver_id: str
    silver_version: int
    rows: int
    """Number of silver's rows that the commit took."""
    upserted: int
    deleted: int
    left_out: Mapping[str, int]
    """Number of rows without a place, by the first key or order column that is null in them."""
    definition: str
    """A hash of the step's key, order and deletes."""
    graves: str | None = None
    """The file of deleted keys, under the table's folder; None without one."""
    version: int = -1
    """Version of the state table."""


def to_metadata(account: StateAccount) -> dict[str, Any]:
    return {
        "format": METADATA_FORMAT,
        "number": account.number,
        "ends": to_json(account.ends),
        "silver_id": account.silver_id,
        "silver_version": account.silver_version,
        "rows": account.rows,
        "upserted": account.upserted,
        "deleted": account.deleted,
        "left_out": dict(account.left_out),
        "definition": account.definition,
        "graves": account.graves,
    }


def from_metadata(data: Any, file: str, version: int) -> StateAccount:
    """Returns the account of a commit's `file`, from what delta-rs read; the inverse. Raises
    TableError unless one of our jobs wrote it.
    """
    try:
        if isinstance(data, str):
            data = json.loads(data)
        if data["format"] != METADATA_FORMAT:
            raise ValueError(f"format {data['format']!r}, known is {METADATA_FORMAT}")
        for name in ("silver_id", "definition"):
            if not isinstance(data[name], str):
                raise TypeError(f"{name} is {data[name]!r}")
        graves = data["graves"]
        if graves is not None and not isinstance(graves, str):
            raise TypeError(f"graves is {graves!r}")
        return StateAccount(
            number=_whole(data, "number", 1),
            ends=from_json(data["ends"], least=0),
            silver_id=data["silver_id"],
            silver_version=_whole(data, "silver_version"),
            rows=_whole(data, "rows"),
            upserted=_whole(data, "upserted"),
            deleted=_whole(data, "deleted"),
            left_out={str(name): _whole(data["left_out"], name) for name in data["left_out"]},
            definition=data["definition"],
            graves=graves,
            version=version,
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as why:
        raise TableError(
            f"{file} is no commit of a state step ({type(why).__name__}: {why}): put the file back"
            " from a copy, or delete the table; the next run computes it from all of silver"
        ) from why


def _whole(data: Any, name: str, least: int = 0) -> int:
    value = data[name]
    if type(value) is not int or not least <= value <= OFFSET_MAX:
        raise ValueError(f"{name} is {value!r}")
    return value
