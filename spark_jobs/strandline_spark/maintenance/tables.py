"""The tables of a lake, whatever their kind, as maintenance sees them."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import FencedTable
from strandline_spark.delta_log.entries import LogError, NoLogError
from strandline_spark.delta_log.table_log import snapshot
from strandline_spark.errors import TableError, first_line
from strandline_spark.source.local_files import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping

_RECORD: Final = frozenset(("topic", "partition", "offset", "ingest_date"))


class Kind(StrEnum):
    BRONZE = "bronze"
    SILVER = "silver"
    QUARANTINE = "quarantine"
    GOLD = "gold"
    STATE = "state"


class AnyTable(FencedTable):
    """A table of any kind, at one version."""

    kind: Kind

    @classmethod
    def of(cls, path: str) -> AnyTable:
        """Opens the table. Raises TableError unless a Strandline job made it."""
        check_path(path)
        try:
            table = cls(snapshot(path), path)
        except NoLogError as why:
            raise TableError(
                f"{path} is no Delta table: name the folder of a table that a job has made"
            ) from why
        except LogError as why:
            raise TableError(f"{path} cannot be opened: {first_line(why)}") from why
        table.kind = table._found_kind()
        return table

    def _found_kind(self) -> Kind:
        columns, settings = set(self.state.columns), self.state.configuration
        if "strandline.state" in settings:
            return Kind.STATE
        if "strandline.step" in settings and {"window_start", "window_end"} <= columns:
            return Kind.GOLD
        if columns >= _RECORD:
            for name, kind in (
                ("reason", Kind.QUARANTINE),
                ("tombstone", Kind.SILVER),
                ("leader_epoch", Kind.BRONZE),
            ):
                if name in columns:
                    return kind
        raise TableError(
            f"{self.path} is no table of a Strandline job: it has the columns {sorted(columns)};"
            " name a bronze, silver, quarantine or gold table"
        )

    def adds(self) -> list[dict[str, Any]]:
        """Returns the files of this version with their statistics, as delta-rs flattens them."""
        found: list[dict[str, Any]] = pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        return found

    def values_of(self, add: Mapping[str, Any]) -> dict[str, str | None]:
        """Returns the partition values of a file."""
        names = self.state.partition_columns
        values = {name: add[f"partition.{name}"] for name in names}
        return {name: None if one is None else str(one) for name, one in values.items()}

    def full(self, path: str) -> str:
        return os.path.join(self.path, path)
