"""Sessions: rows of the same key that follow each other by less than a gap.

A session extends from its first row to its last row plus the gap. The first commit whose watermark
has come that far closes it. Rows that were late when they came (before the watermark of the
previous commit) are in no session. So a closed session never grows: a later row that is not late is
at or after its end. The next commit reads rows of open sessions again, from the earliest of them
on. The commits kept in `Closed` show which of these rows were late.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_spark.gold.framing import Framed
from strandline_spark.gold.query import micros
from strandline_spark.silver.names import WINDOW_COLUMNS, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from strandline_spark.gold.account import Closed
    from strandline_spark.gold.watermark import GoldCommit

_TIME: Final = "strandline_event_us"
_BEGINS: Final = "strandline_session_begins"
_NUMBER: Final = "strandline_session_number"


def read_from(closed: Closed) -> int:
    """Returns the earliest event time that a row of a session which closes after this commit can
    have.
    """
    watermark = closed.commit.watermark
    return watermark if closed.open_from is None else min(closed.open_from, watermark)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions of rows with the same values in the columns `key`, nulls too; `gap` is in
    microseconds.
    """

    gap: int
    key: tuple[str, ...]

    def final(self, latest: int) -> int:
        return latest + self.gap

    def closing(self, before: Closed | None, watermark: int) -> tuple[int | None, int] | None:
        if before is not None and watermark <= before.commit.watermark:
            return None
        # Event times end with the last row of a session that ends at the watermark.
        return (None if before is None else read_from(before)), watermark - self.gap + 1

    def to_read(self, closing: tuple[int | None, int], watermark: int) -> tuple[int | None, int]:
        # A row at or after the watermark is in no session that ends before it.
        return closing[0], watermark

    def is_late(self, event_time: int, watermark: int) -> bool:
        return event_time < watermark

    def late(self, event_time: Column, watermark: int) -> Column:
        return event_time < micros(watermark)

    def missed(self, before: Closed | None) -> Sequence[GoldCommit]:
        return () if before is None else (*before.late_after, before.commit)

    @contextlib.contextmanager
    def frame(
        self, rows: DataFrame, before: Closed | None, watermark: int
    ) -> Iterator[Framed | None]:
        """Yields the closed sessions; None if no session closes."""
        from pyspark.sql import functions as F

        cut = self._cut(rows, before, watermark).persist()
        try:
            start, end = (F.unix_micros(name) for name in WINDOW_COLUMNS)
            closes = end <= micros(watermark)
            row = cut.agg(F.count_if(closes), F.min(F.when(~closes, start))).first()
            assert row is not None
            closed, open_from = row
            yield Framed(cut.where(closes), open_from) if closed else None
        finally:
            cut.unpersist()

    def _cut(self, rows: DataFrame, before: Closed | None, watermark: int) -> DataFrame:
        """Returns rows with the start and end of their session, as far as they lie before the
        watermark.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        time = F.unix_micros("event_time")
        rows = rows.where(time < micros(watermark))
        if before is not None:
            rows = rows.where(time >= micros(read_from(before)))
        key = [quoted(name) for name in self.key]
        by_time = Window.partitionBy(*key).orderBy(_TIME)
        begins = F.coalesce(
            F.col(_TIME) - F.lag(_TIME).over(by_time) >= micros(self.gap), F.lit(True)
        )
        of_session = Window.partitionBy(*key, _NUMBER)
        cut = (
            rows.withColumn(_TIME, time)
            .withColumn(_BEGINS, begins.cast("long"))
            .withColumn(_NUMBER, F.sum(_BEGINS).over(by_time))
            .withColumn("window_start", F.min(_TIME).over(of_session))
            .withColumn("window_end", F.max(_TIME).over(of_session) + micros(self.gap))
        )
        if before is not None:
            cut = cut.where(F.col("window_end") > micros(before.commit.watermark))
        for name in WINDOW_COLUMNS:
            cut = cut.withColumn(name, F.timestamp_micros(name))
        return cut.drop(_TIME, _BEGINS, _NUMBER)
