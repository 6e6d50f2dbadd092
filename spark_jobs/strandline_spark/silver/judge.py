"""The judgement of a batch before silver takes it, from the reports of its tasks: new fields
without a column, and the limit of quarantined records.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.manifests import (
    Taken,
    check_account,
    with_what_files_hold,
)
from strandline_spark.errors import TableError
from strandline_spark.parsing.inference import holds, merge_fields, narrowest
from strandline_spark.parsing.parts.paths import field_text
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.silver.duplicates import REASON
from strandline_spark.silver.names import objection
from strandline_spark.silver.tables import QuarantineTable, SilverTable, type_of_delta
from strandline_spark.silver.widening import widen
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.silver.range_output import SilverManifest

_STANDS: Final = "nothing was committed to silver, and bronze goes on"
_SAMPLES_MAX: Final = 3
_FIELDS_SHOWN: Final = 10
COLUMNS_MAX: Final = 1_000
"""Limit of columns in one table, beyond which new fields make none. If names are data, new fields
never end.
"""


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """A range's account in bronze, with the result of its parsing."""

    account: CommittedRange
    ingest_date: str
    host: str
    manifest: SilverManifest


class Judge:
    """The judge of one pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._noted: set[str] = set()
        self._left_out: set[str] = set()

    def paths_to_nothing(self, parsed: Sequence[ParsedRange]) -> Iterator[str]:
        """Yields a note for each column whose field no record of a batch has, once for each column:
        the path may be wrong, or the field rare.
        """
        found = [one.manifest for one in parsed if one.manifest.unseen is not None]
        unseen = [set(one.unseen or ()) for one in found]
        for name in sorted(set.intersection(*unseen) - self._noted) if unseen else ():
            self._noted.add(name)
            kind = self._pipeline.parse.columns[name]
            rows = sum(one.records for one in found)
            yield (
                f"silver: column {name} is null in all of a batch's {rows:,} records, none of which"
                f" has field = {kind.field!r}: correct the path in [silver.columns] of"
                f" {self._pipeline.file} if it names nothing"
            )

    def notes(self, parsed: Sequence[ParsedRange]) -> Iterator[str]:
        """Yields what a person should know of a batch that silver takes, each thing once."""
        yield from self.paths_to_nothing(parsed)
        yield from self.fields_left_out(parsed)

    def fields_left_out(self, parsed: Sequence[ParsedRange]) -> Iterator[str]:
        """Yields a note for further fields of objects that columns read in part, each once."""
        found = {path for one in parsed for path in one.manifest.left_out} - self._left_out
        self._left_out |= found
        if found:
            shown = ", ".join(sorted(found)[:_FIELDS_SHOWN])
            more = "" if len(found) <= _FIELDS_SHOWN else f" and {len(found) - _FIELDS_SHOWN} more"
            yield (
                f"silver: objects of which columns read a part have further fields, which are left"
                f" out: {shown}{more}; give them columns in [silver.columns] of"
                f' {self._pipeline.file}, or say on_new_field = "ignore" (bronze keeps them)'
            )

    def new_columns(self, parsed: Sequence[ParsedRange], known: Collection[str]) -> dict[str, str]:
        """Gives silver columns for fields that were new to the tasks, and returns these by name and
        type.

        The tasks knew the columns `known`. The ranges must be parsed again with the returned ones.
        Raises TableError for fields that cannot become columns.
        """
        found: dict[str, str] = {}
        topics: dict[str, str] = {}
        for one in parsed:
            merge_fields(found, one.manifest.new_fields)
            for name in one.manifest.new_fields:
                topics.setdefault(name, one.account.topic)
        if not found:
            return {}
        table = SilverTable.open(self._pipeline.silver)
        there = {name: type_of_delta(kind) for name, kind in table.parsed_columns().items()}
        # A named column reads another part of the record, so it takes no field of its name.
        named = self._pipeline.parse.columns
        # Columns that silver got since the tasks began, and columns that have become wide enough
        # since.
        out = {
            name: there[name]
            for name, types in sorted(found.items())
            if name in there
            and name not in named
            and (name not in known or holds(types, there[name]))
        }
        wider = {
            name: types
            for name, types in sorted(found.items())
            if name in there and name not in named and name not in out
        }
        lacking = {n: types for n, types in found.items() if n not in out and n not in wider}
        out |= self._add_columns(table, lacking, topics)
        if wider:
            bronze = BronzeTable.open(self._pipeline.bronze)
            for name, kind in widen(table, bronze, wider).items():
                out[name] = f"{kind} in place of {there[name]}"
        return out

    def _add_columns(
        self, table: SilverTable, found: dict[str, str], topics: dict[str, str]
    ) -> dict[str, str]:
        if not found:
            return {}
        columns = list(table.parsed_columns())
        refused: dict[str, str] = {}
        for name in sorted(found):
            why = objection(name, columns)
            if why is None:
                columns.append(name)
            else:
                refused[name] = f"; {why}"
        if refused or not self._pipeline.adds_columns or len(columns) > COLUMNS_MAX:
            raise TableError(self._not_added(refused or dict.fromkeys(found, ""), found, topics))
        added = {name: column_type(narrowest(types)) for name, types in sorted(found.items())}
        table.add_columns(added)
        return {name: kind.name for name, kind in added.items()}

    def _not_added(
        self, which: dict[str, str], found: dict[str, str], topics: dict[str, str]
    ) -> str:
        """Returns the error; `which` has the reason why a field cannot have a column of its name,
        if there is one.
        """
        names = sorted(which)
        shown = ", ".join(
            f"{_shown(name)} ({narrowest(found[name])}, in topic {topics[name]}{which[name]})"
            for name in names[:_FIELDS_SHOWN]
        )
        more = "" if len(names) <= _FIELDS_SHOWN else f" and {len(names) - _FIELDS_SHOWN} more"
        said = f"records have fields that are no columns: {shown}{more}; {_STANDS}."
        where = f"[silver.columns] of {self._pipeline.place}"
        if which[names[0]]:
            as_field = json.dumps(field_text(names[0]), ensure_ascii=False)
            as_field = as_field.replace("\x7f", "\\u007f")
            return (
                f"{said} Add a column of another name to {where}, for instance my_column ="
                f' {{ type = "{narrowest(found[names[0]])}", field = {as_field} }}'
            )
        if self._pipeline.adds_columns:
            return (
                f"{said} With them silver would have over {COLUMNS_MAX:,} columns: such names are"
                " data; let producers put them into one object, which becomes a text"
            )
        return f'{said} Add them to {where}, or say on_new_field = "add" or "ignore"'

    def check_limit(self, parsed: Sequence[ParsedRange]) -> None:
        """Raises TableError if too many records of one batch do not parse."""
        bad = sum(one.manifest.quarantine["rows"] for one in parsed)
        bad -= reasons_of(parsed).get(REASON, 0)
        rows = sum(one.account.rows for one in parsed)
        if not self._pipeline.limit.is_passed(bad, rows):
            return
        reasons = Counter(reasons_of(parsed)).most_common()
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons if reason != REASON)
        samples = [
            f"{one.account.topic}:{one.account.partition} {one.manifest.sample}"
            for one in parsed
            if one.manifest.sample is not None
        ]
        raise TableError(
            f"{bad:,} of {rows:,} records of a batch do not parse, above quarantine_limit ="
            f" {self._pipeline.limit} ({counts}); for instance {'; '.join(samples[:_SAMPLES_MAX])}."
            f" Of these {_STANDS}: correct {self._pipeline.section} of {self._pipeline.file}, or"
            " raise the limit; the next run catches up from bronze"
        )


def columns_noted(added: Mapping[str, str]) -> str:
    shown = ", ".join(f"{name} {kind}" for name, kind in added.items())
    return f"silver has new columns, as records have new fields or values: {shown}"


def _shown(name: str) -> str:
    """Returns the name in one line: names are data."""
    return name if name and name.isprintable() else repr(name)


def taken(parsed: Sequence[ParsedRange], table: str) -> Taken:
    """Returns the part of the ranges that silver or quarantine takes."""
    accounts, files = [], []
    for one in parsed:
        found: dict[str, Any] = getattr(one.manifest, table)
        records = one.manifest.records if table == SilverTable.KIND else found["rows"]
        account = replace(
            one.account,
            rows=records,
            elsewhere=one.account.rows - records,
            leader_epoch_min=None,
            leader_epoch_max=None,
        )
        own = []
        if found["path"] is not None:
            own.append(
                DataFile(
                    topic=account.topic,
                    ingest_date=one.ingest_date,
                    partition=account.partition,
                    host=one.host,
                    **found,
                )
            )
        check_account(account, own)
        accounts.append(with_what_files_hold(account, own))
        files += own
    reasons = reasons_of(parsed) if table == QuarantineTable.KIND else {}
    return Taken(accounts, files, reasons)


def reasons_of(parsed: Sequence[ParsedRange]) -> dict[str, int]:
    """Returns the number of records that did not parse, for each reason."""
    return dict(sum((Counter(one.manifest.reasons) for one in parsed), Counter[str]()))


def check_sums(parsed: Sequence[ParsedRange]) -> None:
    """Checks that no record is lost between the tables."""
    for one in parsed:
        rows = one.manifest.records + one.manifest.quarantine["rows"]
        if rows != one.account.rows:
            raise TableError(
                f"{one.account.tp}: {rows} rows were parsed of {one.account.rows}; nothing was"
                " committed, start the job again"
            )


def discard(
    pipeline: Pipeline,
    parsed: Iterable[ParsedRange],
    silver: Collection[str] = (),
    quarantine: Collection[str] = (),
) -> None:
    """Removes the files of ranges that are not committed, as far as possible, except those that the
    tables hold.
    """
    for one in parsed:
        for root, found, held in (
            (pipeline.silver, one.manifest.silver, silver),
            (pipeline.quarantine, one.manifest.quarantine, quarantine),
        ):
            path = found.get("path")
            if path is not None and path not in held:
                with contextlib.suppress(OSError):
                    files.remove(os.path.join(root, path))
