"""The rebuild of silver and quarantine from bronze, by the present rules.

The new tables are built beside the old ones, range by range like in `catch_up`. Once they are level
with bronze, renames put them in the place of the old ones. Both carry the same number. If it breaks
off anywhere, a second run continues with the ranges that are left, or with the renames.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.delta_log.aside import set_aside
from strandline_spark.errors import OptionError, TableError, first_line
from strandline_spark.gold.silver import REBUILT
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.settings import fields_of
from strandline_spark.pipeline.columns import with_columns_of
from strandline_spark.silver.catch_up import CatchUp
from strandline_spark.silver.range_output import SilverPlan
from strandline_spark.silver.tables import QuarantineTable, SilverTable, settings_of, type_of_delta
from strandline_spark.stores.durable import sync
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from strandline_spark.parsing.settings import ColumnType, ParseSettings
    from strandline_spark.pipeline.config import Pipeline

_RULES: Final = "strandline.rebuild.rules"
BESIDE: Final = ".rebuild"
"""End of the folders of tables that a rebuild makes."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild."""

    rows: int
    """Number of rows that this run read from bronze."""
    quarantined: int
    aside: tuple[str, ...]
    """Present folders of the old tables."""


@contextlib.contextmanager
def running(pipeline: Pipeline, *, alone: bool = False) -> Iterator[None]:
    """Keeps the pipeline's tables in their places while the block runs; with `alone`, the block may
    move them.

    Raises TableError if another process runs that conflicts with this.
    """
    folder = os.path.join(pipeline.checkpoint, "strandline")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "running.lock"), "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError as why:
            other = "is run" if alone else "has its silver rebuilt"
            raise TableError(
                f"the pipeline {pipeline.name} {other} by another process at this moment: wait for"
                " its end, or stop it, and start this again"
            ) from why
        yield


def check_places(pipeline: Pipeline) -> None:
    """Raises TableError if a rebuild broke off between the renames of its two tables."""
    if _is_half_renamed(pipeline):
        raise TableError(
            f"a rebuild of {pipeline.silver} broke off while the new tables took their places: run"
            f" `strandline-spark rebuild silver {pipeline.file}` again, it goes on"
        )


class Rebuild:
    """The rebuild of one pipeline whose tables no other process changes."""

    def __init__(
        self, pipeline: Pipeline, note: Callable[[str], None], *, quarantine_only: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._note = note
        self._quarantine_only = quarantine_only
        self._new = replace(
            pipeline, silver=pipeline.silver + BESIDE, quarantine=pipeline.quarantine + BESIDE
        )

    def run(self, spark: SparkSession) -> Rebuilt:
        """Runs the rebuild. Raises StrandlineSparkError; then a second run continues."""
        pipeline = self._pipeline
        if is_remote(pipeline.silver) or is_remote(pipeline.quarantine):
            raise TableError(
                f"{pipeline.silver} cannot be rebuilt in its place: an object store has no renames,"
                " by which a new table takes the place of the old one. Name other tables in"
                f" {pipeline.file} ([silver] table and quarantine, and those of its steps), and run"
                " it: they are made from all of bronze"
            )
        BronzeTable.open(pipeline.bronze).check_owner(pipeline.name)
        SilverTable.find(pipeline.silver, pipeline.name)
        QuarantineTable.find(pipeline.quarantine, pipeline.name)
        if self._quarantine_only and pipeline.parse.dedupe_key:
            raise OptionError(
                f"--quarantine-only keeps the rows of silver, and with dedupe ({pipeline.place}) a"
                " record that parses now may be what a kept row repeats: leave the flag out"
            )
        rows = quarantined = 0
        if not _is_half_renamed(pipeline):
            kept = self._kept(spark) if self._quarantine_only else None
            self._make_tables()
            catch_up = CatchUp(
                spark, self._new, self._settings, self._note, kept=kept, all_partitions=True
            )
            while catch_up.is_behind():
                step = catch_up.step()
                rows, quarantined = rows + step.rows, quarantined + step.quarantined
                self._note(f"silver: {rows:,} records from bronze, {step.left} ranges to go")
        return Rebuilt(rows, quarantined, tuple(self._rename()))

    def _settings(self, silver: SilverTable) -> ParseSettings:
        return with_columns_of(self._new, silver).parse

    def _kept(self, spark: SparkSession) -> str:
        """Returns the silver table whose rows stay. Raises TableError unless it is whole."""
        pipeline = self._pipeline
        if not os.path.isdir(pipeline.silver) and os.path.isdir(self._new.silver):
            # An earlier run has moved it aside, so the new one is whole.
            return pipeline.silver
        silver = SilverTable.open(pipeline.silver)
        old = CatchUp(spark, pipeline, lambda _: pipeline.parse, self._note, all_partitions=True)
        if old.is_behind():
            raise TableError(
                f"{pipeline.silver} and {pipeline.quarantine} do not hold all that bronze holds, so"
                " quarantine alone cannot be taken again: leave --quarantine-only out"
            )
        silver.check_kind(pipeline.parse, pipeline.file)
        silver.fit_columns(pipeline.parse.columns)
        return pipeline.silver

    def _make_tables(self) -> None:
        """Makes the new tables, or takes those of an earlier run with the same rules."""
        new, name = self._new, self._pipeline.name
        columns = self._columns()
        plan = SilverPlan("", "", self._pipeline.parse).to_json()
        parts = [
            plan,
            self._quarantine_only,
            self._pipeline.adds_columns,
            self._pipeline.own_topics,
        ]
        rules = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        silver = SilverTable.find(new.silver, name)
        quarantine = QuarantineTable.find(new.quarantine, name)
        if silver is None or silver.setting(_RULES) != rules:
            _remove(new.silver)
            silver = None
        number = str(uuid.uuid4()) if silver is None else silver.setting(REBUILT)
        if quarantine is None or quarantine.setting(REBUILT) != number:
            _remove(new.quarantine)
        settings = {REBUILT: str(number), _RULES: rules}
        of_silver = settings | settings_of(self._pipeline.parse)
        SilverTable.open_or_create(new.silver, columns, name, of_silver)
        QuarantineTable.open_or_create(new.quarantine, name, settings)

    def _columns(self) -> dict[str, ColumnType]:
        """Returns the file's columns, and those that fields added to the old table."""
        pipeline = self._pipeline
        declared = dict(pipeline.parse.columns)
        old = SilverTable.find(pipeline.silver, pipeline.name)
        if old is None or pipeline.parse.format != "json":
            return declared
        read = {*declared, *fields_of(declared).values()}
        beside = {
            name: column_type(type_of_delta(kind))
            for name, kind in old.parsed_columns().items()
            if name not in read
        }
        return declared | beside

    def _rename(self) -> Iterator[str]:
        """Moves both tables to their places, silver first; yields the old tables' new folders."""
        pipeline, new = self._pipeline, self._new
        for path, beside in ((pipeline.silver, new.silver), (pipeline.quarantine, new.quarantine)):
            if not os.path.isdir(beside):
                continue
            if os.path.lexists(path):
                yield set_aside(path)
            try:
                os.rename(beside, path)
                sync(os.path.dirname(path))
            except OSError as why:
                raise TableError(
                    f"{beside} cannot take the place of {path} ({first_line(why)}): see to it that"
                    " you may write there, and run this again; it goes on"
                ) from why


def _is_half_renamed(pipeline: Pipeline) -> bool:
    """True if the renames have begun and not ended: the new quarantine is not in its place, and the
    new silver is, or the place is empty.
    """
    beside = pipeline.quarantine + BESIDE
    if is_remote(beside) or not os.path.isdir(beside):
        return False
    new = QuarantineTable.find(beside, pipeline.name)
    number = None if new is None else new.setting(REBUILT)
    if number is None or os.path.isdir(pipeline.silver + BESIDE):
        return False
    there = SilverTable.find(pipeline.silver, pipeline.name)
    return there is not None and there.setting(REBUILT) == number


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
