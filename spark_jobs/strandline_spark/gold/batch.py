"""The computation of one commit of a gold step: the rows of the windows that it closes, and the
number of late rows. The result depends only on silver, the commit and the step's state before it.
So `verify` computes the same.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError, first_line
from strandline_spark.gold.account import Closed
from strandline_spark.gold.framing import FixedWindows, Framing
from strandline_spark.gold.query import came_rows, run_statement
from strandline_spark.gold.rounding import nudged
from strandline_spark.gold.session_windows import Sessions, read_from
from strandline_spark.gold.updates import closed_or_touched, files_of_windows, windows_of
from strandline_spark.gold.watermark import Window, WindowKind
from strandline_spark.parsing.zones import Zone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strandline_spark.gold.silver import Silver
    from strandline_spark.gold.watermark import GoldCommit
    from strandline_spark.pipeline.steps import GoldStep

WEEK: Final = 7 * 86_400_000_000
MONDAY: Final = 4 * 86_400_000_000
"""The first Monday of 1970, which began with a Thursday."""
_ADVICE: Final = re.compile(
    r" ?If necessary,? set \"?spark\.sql\.ansi\.enabled\"? to \"?false\"?[^.]*\."
)
"""Advice in Spark's errors that does not apply: the session sets ANSI mode, so that sums never wrap
around.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that a commit adds."""

    rows: Any
    """The statement's result as an Arrow table."""
    late: int
    closed: Closed
    files: int
    """Number of silver's files that were read for the result."""
    replaced: frozenset[int] = frozenset()
    """Ends of the earlier windows of which the result has all rows again."""


def framing_of(step: GoldStep) -> Framing:
    if step.session is not None:
        return Sessions(step.session, step.session_key)
    assert step.window is not None, step
    slide = step.slide or step.window
    if step.zone is None:
        return FixedWindows(WindowKind(step.window, slide, step.offset))
    origin = step.offset + (MONDAY if slide % WEEK == 0 else 0)
    return FixedWindows(WindowKind(step.window, slide, origin, Zone(step.zone)))


def compute(
    spark: SparkSession,
    step: GoldStep,
    silver: Silver,
    before: Closed | None,
    commit: GoldCommit,
    *,
    nudge: float = 0.0,
) -> Batch | None:
    """Returns the batch; None if no row came late and the commit closes no window with a row, as
    far as files or sessions show it.

    A commit with the watermark of the previous one only reports late rows. With a `nudge` the terms
    of sums are changed by such a share (`rounding.py`). Raises OptionError if the statement fails
    at a row.
    """
    framing = framing_of(step)
    if step.updates and before is not None:
        assert isinstance(framing, FixedWindows), step
        return _updated(spark, step, framing, silver, before, commit, nudge)
    if before is not None and commit.watermark == before.commit.watermark:
        return _late_alone(spark, framing, silver, before, commit)
    closing = framing.closing(before, commit.watermark)
    if closing is None or not silver.overlapping(*closing, commit.ends):
        return None
    files = silver.overlapping(*framing.to_read(closing, commit.watermark), commit.ends)
    held = silver.held_rows(spark, files, commit.ends, framing.missed(before))
    with framing.frame(held, before, commit.watermark) as framed:
        if framed is None:
            return None
        rows = _result(step, framed.windows, nudge)
        open_from = framed.open_from
    previous = None if before is None else before.commit.watermark
    _check_windows(step, rows, previous, commit.watermark)
    late = 0 if before is None else count_late(spark, framing, silver, before.commit, commit)
    return Batch(rows, late, _closed(framing, before, commit, open_from, late), len(files))


def _updated(
    spark: SparkSession,
    step: GoldStep,
    framing: FixedWindows,
    silver: Silver,
    before: Closed,
    commit: GoldCommit,
    nudge: float,
) -> Batch | None:
    """Returns the rows of the windows that close now, and of the earlier ones with new late rows.
    Each has all rows of silver that this commit holds.
    """
    late = late_rows(spark, framing, silver, before.commit, commit)
    touched = frozenset[Window]() if late is None else windows_of(late, framing, before.commit)
    closing = framing.closing(before, commit.watermark)
    files = files_of_windows(silver, touched, closing, commit.ends)
    if not files:
        return None
    ends = frozenset(one.end for one in touched)
    held = silver.held_rows(spark, files, commit.ends, ())
    previous = before.commit.watermark
    framed = closed_or_touched(held, framing, previous, commit.watermark, ends)
    rows = _result(step, framed, nudge)
    _check_windows(step, rows, previous, commit.watermark, ends)
    number = 0 if late is None or not touched else late.count()
    return Batch(rows, number, Closed(commit), len(files), ends)


def _late_alone(
    spark: SparkSession, framing: Framing, silver: Silver, before: Closed, commit: GoldCommit
) -> Batch | None:
    late = count_late(spark, framing, silver, before.commit, commit)
    if late == 0:
        return None
    return Batch(pa.table({}), late, _closed(framing, before, commit, before.open_from, late), 0)


def _closed(
    framing: Framing, before: Closed | None, commit: GoldCommit, open_from: int | None, late: int
) -> Closed:
    closed = Closed(commit, open_from)
    if before is None or not isinstance(framing, Sessions):
        return closed
    return Closed(commit, open_from, _late_after(before, closed, late))


def count_late(
    spark: SparkSession, framing: Framing, silver: Silver, before: GoldCommit, commit: GoldCommit
) -> int:
    """Returns the number of late rows that came between the two; no Spark job runs if files show
    none.
    """
    rows = late_rows(spark, framing, silver, before, commit)
    return 0 if rows is None else rows.count()


def late_rows(
    spark: SparkSession, framing: Framing, silver: Silver, before: GoldCommit, commit: GoldCommit
) -> DataFrame | None:
    """Returns the late rows that came between the two; None if files show that there are none."""
    from pyspark.sql import functions as F

    files = silver.late(before, commit.ends, lambda time: framing.is_late(time, before.watermark))
    if not files:
        return None
    came = came_rows(silver.rows(spark, files), before, commit)
    return came.where(framing.late(F.unix_micros("event_time"), before.watermark))


def _late_after(before: Closed, now: Closed, late: int) -> tuple[GoldCommit, ...]:
    """Returns the commits to keep. One after which no late row came adds nothing to the next."""
    commits = (*before.late_after, before.commit) if late else before.late_after
    first = read_from(now)
    return tuple(one for one in commits if one.watermark > first)


def _result(step: GoldStep, windows: DataFrame, nudge: float) -> Any:
    from pyspark.errors import (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        IllegalArgumentException,
        NumberFormatException,
        SparkRuntimeException,
    )

    # PySpark prints its errors, with the JVM's stack.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    frame = run_statement(windows, step.sql, step=step.name, line=step.line)
    if nudge != 0:
        frame = nudged(frame, nudge)
    try:
        return frame.toArrow()
    except (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        IllegalArgumentException,
        NumberFormatException,
        SparkRuntimeException,
    ) as why:
        raise OptionError(
            f"[[gold]] {step.name}, key sql, line {step.line}: the statement failed on the rows of"
            f" silver: {_ADVICE.sub('', first_line(why))}"
        ) from why


def _check_windows(
    step: GoldStep,
    rows: Any,
    previous: int | None,
    watermark: int,
    again: frozenset[int] = frozenset(),
) -> None:
    """Raises OptionError for a row that would not be found as one of this commit; `again` are the
    ends of windows that are replaced. A checked statement gives no such row.
    """
    ends = rows.column("window_end")
    micros = ends.cast(pa.int64())
    if again:
        replaced = pc.is_in(micros, value_set=pa.array(sorted(again), pa.int64()))
        micros = micros.filter(pc.invert(replaced))
    least, most = (one.as_py() for one in pc.min_max(micros).values())
    if ends.null_count == 0 and (
        least is None or ((previous is None or least > previous) and most <= watermark)
    ):
        return
    raise OptionError(
        f"[[gold]] {step.name}, key sql, line {step.line}: the result has a row whose window_end is"
        " null or not that of a window which closes now; select window_start and window_end as they"
        " are in silver, and group by them"
    )
