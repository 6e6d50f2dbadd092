"""State steps over silver tables that are made without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from strandline_spark.pipeline.steps import StateStep
from strandline_spark.state.step import run_step
from strandline_spark.state.verify import verify_step

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_spark.state.step import StateReport
    from strandline_spark.state.verify import StateFindings

PIPELINE = "clicks"


class States:
    """One silver table, and a step over it whose table is beside it."""

    def __init__(
        self,
        folder: Path,
        key: tuple[str, ...] = ("key",),
        order: tuple[str, ...] = (),
        delete_when: str | None = None,
    ) -> None:
        self.silver = str(folder / "silver")
        self.step = StateStep("latest", str(folder / "state"), key, order, delete_when)
        self.notes: list[str] = []

    def run(self, **more: Any) -> StateReport:
        return run_step(self.step, self.silver, pipeline=PIPELINE, note=self.notes.append, **more)

    def verify(self, *, full: bool = True) -> StateFindings:
        return verify_step(self.step, self.silver, pipeline=PIPELINE, full=full)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The table's rows, sorted."""
        table = DeltaTable(self.step.table).to_pyarrow_table(columns=list(columns))
        return sorted(tuple(row[name] for name in columns) for row in table.to_pylist())

    def records(self) -> list[tuple[Any, ...]]:
        """Key, partition and offset of each row."""
        return self.rows("key", "partition", "offset")
