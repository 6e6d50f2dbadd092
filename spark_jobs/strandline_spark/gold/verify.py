"""The check that a gold table holds what silver gives. Each commit that the log still has is
computed again, from silver's rows, its watermark and its ends. The result is compared with the
table's rows of its windows.

The facts that a commit needs about earlier ones are computed again too, from the first commit on.
If that one has left the log, the account of the oldest present one is trusted. Its rows and those
of earlier commits are not compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError
from strandline_spark.gold import noted_rows
from strandline_spark.gold.batch import compute, count_late, framing_of
from strandline_spark.gold.compare import difference, margins_of
from strandline_spark.gold.definition import definition_of
from strandline_spark.gold.noted_rows import GoldNote, account_hash, rows_hash
from strandline_spark.gold.rounding import SHARE
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.table import GoldTable, named_as
from strandline_spark.gold.watermark import time_text
from strandline_spark.maintenance import removals

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import SparkSession

    from strandline_spark.gold.account import Closed, GoldAccount
    from strandline_spark.gold.batch import Batch
    from strandline_spark.gold.compare import Row
    from strandline_spark.gold.watermark import GoldCommit
    from strandline_spark.pipeline.steps import GoldStep

_WINDOWS_MAX: Final = 3
"""Number of a commit's windows that are shown."""
_NEVER: Final = (1 << 63) - 1


@dataclass(slots=True)
class GoldFindings:
    """The findings about one gold table."""

    step: str
    commits: int = 0
    """Number of commits that were computed again."""
    noted: int = 0
    """Number of those that an earlier verification has found sound, and whose rows are the same."""
    unchecked: int = 0
    """Number of the others: they have left the log, or depend on one that has."""
    rows: int = 0
    """Number of the table's rows."""
    rows_unchecked: int = 0
    """Number of rows of the unchecked commits."""
    watermark: str = "-"
    """Time up to which windows are closed."""
    late: int = 0
    """Number of late rows of silver, as the commits in the log counted them."""
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class _Kept:
    """What `retention` has left to compare. Windows with removed rows of silver cannot be computed
    again, and removed windows are gone; the counts of commits are of all of them.
    """

    silver_from: int | None
    """Event time before which rows of silver may be gone."""
    gold_from: int | None
    """Time before which windows may be gone."""

    @property
    def is_cut(self) -> bool:
        return self.silver_from is not None or self.gold_from is not None

    def of(self, rows: Any) -> Any:
        """Returns the rows of windows that are compared."""
        if not self.is_cut or not {"window_start", "window_end"} <= set(rows.column_names):
            return rows
        starts, ends = (
            pc.fill_null(rows.column(name).cast(pa.int64()), _NEVER)
            for name in ("window_start", "window_end")
        )
        least = -_NEVER if self.silver_from is None else self.silver_from
        after = -_NEVER if self.gold_from is None else self.gold_from
        return rows.filter(pc.and_(pc.greater_equal(starts, least), pc.greater(ends, after)))


def verify_step(
    spark: SparkSession, step: GoldStep, silver_path: str, *, pipeline: str, full: bool = True
) -> GoldFindings:
    """Checks the table. Unless `full`, commits that were found sound are not computed again if
    their rows are the same. Raises TableError if a table is unreadable or is not the step's.
    """
    gold = GoldTable.open(step, pipeline)
    silver = Silver.open(silver_path)
    accounts = gold.accounts()
    kept = _Kept(removals.retained_from(silver.state), removals.retained_from(gold.state))
    rows = _by_commit(gold.rows(), [one.watermark for one in accounts])
    found = GoldFindings(step.name, rows=sum(len(one) for one in rows))
    found.late = sum(one.late for one in accounts)
    found.watermark = time_text(accounts[-1].watermark if accounts else None)
    try:
        definition = definition_of(spark, step, silver.schema())
    except OptionError as why:
        # An earlier version accepted some statements that cannot be computed again.
        found.problems.append(f"the statement is refused: {why}")
        return found
    gold.check_definition(definition.identity)
    if step.updates:
        return _Updated(spark, step, silver, gold, accounts, kept).findings(
            found, kept.of(pa.concat_tables(rows)), full=full
        )
    before: Closed | None = None
    previous: GoldAccount | None = None
    noted = 0 if full else _noted(gold, accounts, rows, found)
    for account, held in zip(accounts, rows, strict=False):
        if account.number <= noted:
            found.noted, before = found.noted + 1, account.closed
        elif previous is None and account.number > 1:
            found.unchecked, found.rows_unchecked = account.number, held.num_rows
            before = account.closed
        elif not _follows(account, previous):
            found.problems.append(_broken(account))
            return found
        else:
            before = _check(spark, step, silver, before, account, held, found, kept)
            found.commits += 1
        previous = account
    outside = _plain(rows[-1])
    if outside:
        found.problems.append(
            f"{len(outside)} rows are of windows that no commit has closed{_first(outside)}"
        )
    if found.sound and accounts:
        held_rows = rows_hash(_plain(one) for one in rows[:-1])
        last = accounts[-1]
        note = GoldNote(last.number, account_hash(last), held_rows)
        noted_rows.write(gold.path, _noted_id(gold), note)
    return found


def _noted_id(gold: GoldTable) -> str:
    """Returns the table's id as a note has it: after a retention the table has fewer rows."""
    return f"{gold.state.id}/{gold.state.transactions.get(removals.NUMBER, 0)}"


def _noted(
    gold: GoldTable, accounts: Sequence[GoldAccount], rows: Sequence[Any], found: GoldFindings
) -> int:
    """Returns the number of the newest commit that needs no computation; 0 if all do."""
    note = noted_rows.read(gold.path, _noted_id(gold))
    place = next((n for n, one in enumerate(accounts) if note and one.number == note.number), None)
    if note is None or place is None:
        return 0
    if not note.fits(accounts[place]):
        found.problems.append(f"the account of commit {note.number} changed since it was verified")
        return 0
    if rows_hash(_plain(one) for one in rows[: place + 1]) != note.rows:
        found.problems.append(
            f"rows of windows up to {time_text(accounts[place].watermark)} changed since they were"
            " verified"
        )
        return 0
    return note.number


def as_json(found: GoldFindings) -> dict[str, Any]:
    return asdict(found) | {"sound": found.sound}


def _by_commit(rows: Any, watermarks: Sequence[int]) -> list[Any]:
    """Returns an Arrow table for each commit, with the rows whose window it closed by its
    watermark, and at the end one with the rows of none.
    """
    ends = pc.fill_null(rows.column("window_end").cast(pa.int64()), _NEVER).to_numpy()
    which = np.searchsorted(np.array(watermarks, dtype=np.int64), ends)
    order = np.argsort(which, kind="stable")
    first = np.searchsorted(which[order], np.arange(len(watermarks) + 2))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(a, b - a) for a, b in pairwise(first.tolist())]


def _check(
    spark: SparkSession,
    step: GoldStep,
    silver: Silver,
    before: Closed | None,
    account: GoldAccount,
    held: Any,
    found: GoldFindings,
    kept: _Kept,
) -> Closed:
    """Returns the computed state of the step after the commit."""
    batch = compute(spark, step, silver, before, account.closed.commit)
    expected = _compare(spark, step, silver, before, account, batch, kept.of(held), found, kept)
    if kept.is_cut:
        return account.closed
    version = f"version {account.version}"
    counts = [("rows", account.rows, expected)]
    if batch is not None:
        counts.append(("late rows", account.late, batch.late))
    _check_counts(version, counts, found)
    if batch is None:
        return account.closed
    if batch.closed != account.closed:
        found.problems.append(f"what {version} says of open sessions is not what silver gives")
    return batch.closed


class _Updated:
    """The check of a table whose windows are computed again for late rows: the newest commit
    decides all of it. Each commit's number of late rows is counted again too.
    """

    def __init__(
        self,
        spark: SparkSession,
        step: GoldStep,
        silver: Silver,
        gold: GoldTable,
        accounts: list[GoldAccount],
        kept: _Kept,
    ) -> None:
        self._spark = spark
        self._step = step
        self._silver = silver
        self._gold = gold
        self._accounts = accounts
        self._kept = kept

    def findings(self, found: GoldFindings, held: Any, *, full: bool) -> GoldFindings:
        """Returns the findings about the rows `held`. Unless `full`, windows that were found sound
        are computed again only if rows came for them since. If the others are not what they were,
        all are computed.
        """
        note = None if full else noted_rows.read(self._gold.path, _noted_id(self._gold))
        for place, account in enumerate(self._accounts):
            if note is not None and note.fits(account):
                trial = replace(found, problems=[])
                self._check_from(place, note, held, trial)
                if trial.sound:
                    found = trial
                    break
        else:
            self._check_all(held, found)
        if found.sound and self._accounts:
            last = self._accounts[-1]
            windows = {end: rows_hash([rows]) for end, rows in _by_end(held).items()}
            note = GoldNote(last.number, account_hash(last), "", windows)
            noted_rows.write(self._gold.path, _noted_id(self._gold), note)
        return found

    def _check_all(self, held: Any, found: GoldFindings) -> None:
        accounts = self._accounts
        found.commits = len(accounts)
        if not accounts:
            if held.num_rows:
                found.problems.append(
                    f"{held.num_rows} rows are there, and no commit has closed any"
                )
            return
        if accounts[0].number == 1 and not _follows(accounts[0], None):
            found.problems.append(_broken(accounts[0]))
            return
        if self._check_late(0, found):
            commit = accounts[-1].closed.commit
            batch = compute(self._spark, self._step, self._silver, None, commit)
            self._compare(None, batch, held, found)

    def _check_from(self, place: int, note: GoldNote, held: Any, found: GoldFindings) -> None:
        """Checks what came after the commit at this place, and that the noted windows for which no
        row came have the rows that they had.
        """
        found.noted, found.commits = place + 1, len(self._accounts) - place - 1
        if not self._check_late(place, found):
            return
        before = self._accounts[place].closed
        ends = pc.fill_null(held.column("window_end").cast(pa.int64()), _NEVER)
        is_old = pc.less_equal(ends, before.commit.watermark)
        batch = compute(
            self._spark, self._step, self._silver, before, self._accounts[-1].closed.commit
        )
        if batch is not None and batch.replaced:
            again = pa.array(sorted(batch.replaced), pa.int64())
            is_old = pc.and_(is_old, pc.invert(pc.is_in(ends, value_set=again)))
        now = {end: rows_hash([rows]) for end, rows in _by_end(held.filter(is_old)).items()}
        replaced = set() if batch is None else _texts(held.schema, batch.replaced)
        if now != {end: one for end, one in note.windows.items() if end not in replaced}:
            found.problems.append("windows are not what they were when they were verified")
            return
        self._compare(before, batch, held.filter(pc.invert(is_old)), found)

    def _check_late(self, place: int, found: GoldFindings) -> bool:
        """Checks the late rows of the commits after this place. False if one does not follow on the
        commit before it.
        """
        for previous, account in pairwise(self._accounts[place:]):
            if not _follows(account, previous):
                found.problems.append(_broken(account))
                return False
            if not self._kept.is_cut:
                commits = previous.closed.commit, account.closed.commit
                framing = framing_of(self._step)
                late = count_late(self._spark, framing, self._silver, *commits)
                counts = [("late rows", account.late, late)]
                _check_counts(f"version {account.version}", counts, found)
        return True

    def _compare(
        self, before: Closed | None, batch: Batch | None, held: Any, found: GoldFindings
    ) -> None:
        last = self._accounts[-1]
        _compare(
            self._spark, self._step, self._silver, before, last, batch, held, found, self._kept
        )


def _by_end(rows: Any) -> dict[str, list[Row]]:
    """Returns the rows by the text of their window's end."""
    out: dict[str, list[Row]] = {}
    for row in _plain(rows):
        out.setdefault(str(row["window_end"]), []).append(row)
    return out


def _texts(schema: Any, ends: Collection[int]) -> set[str]:
    """Returns the ends of windows, in microseconds, as `_by_end` has them."""
    kind = schema.field("window_end").type
    return set(pa.array(sorted(ends), pa.int64()).cast(kind).cast(pa.string()).to_pylist())


def _broken(account: GoldAccount) -> str:
    return (
        f"version {account.version} is commit {account.number}, after the watermark"
        f" {account.previous}: it does not follow on the commit before it in the log"
    )


def _check_counts(version: str, counts: list[tuple[str, int, int]], found: GoldFindings) -> None:
    for what, said, computed in counts:
        if said != computed:
            found.problems.append(f"{version} says {said} {what}, silver has {computed}")


def _compare(
    spark: SparkSession,
    step: GoldStep,
    silver: Silver,
    before: Closed | None,
    account: GoldAccount,
    batch: Batch | None,
    held: Any,
    found: GoldFindings,
    kept: _Kept,
) -> int:
    """Notes the rows that differ, and returns the number of those that silver gives."""
    names = held.column_names
    expected = [] if batch is None else _plain(kept.of(named_as(batch.rows, names)))
    sides = difference(expected, _plain(held))
    if all(sides):
        # Both may be the same sums, added in another order.
        commit = account.closed.commit
        batches = _nudged(spark, step, silver, before, commit)
        nudged = [_plain(kept.of(named_as(one.rows, names))) for one in batches]
        sides = difference(*sides, margins_of(expected, nudged))
    windows = _by_window(*sides)
    version = f"version {account.version}"
    for (start, end), (missing, extra) in sorted(windows.items())[:_WINDOWS_MAX]:
        found.problems.append(
            f"window [{start}, {end}) of {version}: of what silver gives, {len(missing)} rows are"
            f" not there{_first(missing)}; {len(extra)} rows are there that it does not"
            f" give{_first(extra)}"
        )
    if len(windows) > _WINDOWS_MAX:
        found.problems.append(f"{len(windows) - _WINDOWS_MAX} more windows of {version} differ")
    return len(expected)


def _by_window(*sides: list[Row]) -> dict[tuple[str, str], tuple[list[Row], list[Row]]]:
    windows: dict[tuple[str, str], tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate(sides):
        for row in rows:
            window = (row["window_start"], row["window_end"])
            windows.setdefault(window, ([], []))[side].append(row)
    return windows


def _nudged(
    spark: SparkSession, step: GoldStep, silver: Silver, before: Closed | None, commit: GoldCommit
) -> list[Batch]:
    """Returns results with changed terms; none for a statement that Spark cannot run so: it has no
    margins then.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    shares = (SHARE, -SHARE)
    try:
        found = [compute(spark, step, silver, before, commit, nudge=share) for share in shares]
    except (OptionError, Py4JError, PySparkException):
        return []
    return [one for one in found if one is not None]


def _follows(account: GoldAccount, previous: GoldAccount | None) -> bool:
    if previous is None:
        return account.previous is None
    return account.previous == previous.watermark and account.number == previous.number + 1


def _plain(rows: Any) -> list[Row]:
    """Returns times and dates as text, because Python has none beyond the year 9999."""
    for n, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            rows = rows.set_column(n, column.name, rows.column(n).cast(pa.string()))
    out: list[Row] = rows.to_pylist()
    return out


def _first(rows: list[Row]) -> str:
    return f": {rows[0]}" if rows else ""
