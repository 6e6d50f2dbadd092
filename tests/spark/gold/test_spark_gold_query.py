"""Gold's statements over Spark: the rows of closed windows, and what is refused before a read."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import functions

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import OptionError
from strandline_spark.gold.framing import FixedWindows
from strandline_spark.gold.query import check_statement, closed_windows, held_rows, run_statement
from strandline_spark.gold.watermark import GoldCommit, Window, WindowKind, closes
from strandline_spark.parsing.zones import Zone
from strandline_spark.spark.session import drop_other_meanings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str, int, int, int, str, int]
SCHEMA = "topic string, partition int, offset long, event_us long, path string, bytes int"
EXACT = """SELECT window_start, window_end, count(*) AS n, percentile(bytes, 0.5) AS median,
  slice(sort_array(collect_list(struct(bytes, path)), false), 1, 2) AS top
FROM silver GROUP BY ALL"""


def some_rows() -> list[Row]:
    chance = random.Random(16)
    return [
        (
            "access",
            partition,
            offset,
            chance.randrange(-50, 100),
            f"/{offset}",
            chance.randrange(99),
        )
        for partition in range(3)
        for offset in range(40)
    ]


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).selectExpr(
        "topic", "partition", "offset", "timestamp_micros(event_us) AS event_time", "path", "bytes"
    )


@pytest.mark.parametrize("kind", [WindowKind(size=20, slide=20), WindowKind(size=20, slide=7)])
@pytest.mark.parametrize("previous", [None, 31])
def test_counts_exact_medians_and_the_top_are_those_of_a_plain_loop(
    spark: SparkSession, kind: WindowKind, previous: int | None
) -> None:
    rows = some_rows()
    ends = {
        TopicPartition("access", 0): 40,
        TopicPartition("other", 2): 40,
        TopicPartition("access", 1): 13,
    }
    commit = GoldCommit(72, ends)
    expected: dict[Window, list[tuple[int, str]]] = defaultdict(list)
    for topic, partition, offset, time, path, size in rows:
        if commit.has(TopicPartition(topic, partition), offset):
            for window in kind.windows_of(time):
                if closes(window, previous, commit.watermark):
                    expected[window].append((size, path))
    windows = closed_windows(
        held_rows(frame(spark, rows), commit.ends), kind, previous, commit.watermark
    )
    gold = run_statement(windows, EXACT, step="sizes", line=1).selectExpr(
        "unix_micros(window_start)", "unix_micros(window_end)", "n", "median", "top"
    )
    assert expected
    assert {
        Window(start, end): (n, median, [tuple(one) for one in top])
        for start, end, n, median, top in gold.collect()
    } == {
        window: (len(held), _median([size for size, _ in held]), sorted(held)[::-1][:2])
        for window, held in expected.items()
    }


def _median(sizes: list[int]) -> float:
    ordered = sorted(sizes)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


MINUTE, DAY = 60 * 10**6, 86_400 * 10**6
FAR = 2**62


@pytest.mark.parametrize(
    ("size", "slide"),
    [
        (60 * MINUTE, MINUTE),
        (36_500 * DAY, 73 * DAY),
        *(
            pytest.param(size, slide, marks=pytest.mark.proof)
            for size, slide in (
                (DAY, 15 * MINUTE),
                (37 * MINUTE, 36 * MINUTE),
                (7 * DAY, 11 * MINUTE + 1),
                (36_500 * DAY, 36_500 * DAY),
            )
        ),
    ],
)
def test_long_windows_are_as_many_as_a_plain_loop_counts(
    spark: SparkSession, size: int, slide: int
) -> None:
    kind = WindowKind(size, slide)
    cases = []
    for origin in (0, 1_770_000_000 * 10**6, -(10**14), FAR, -FAR):
        times = [origin, origin + size // 2, origin - slide, origin + size + 1]
        for previous, watermark in (
            (None, origin + 2 * size + slide),
            (origin - slide // 2, origin + size // 2 + slide),
        ):
            cases.append(Case(times, previous, watermark))
    assert closed_in(spark, kind, cases) == [one.closed(kind) for one in cases]
    assert all(one.closed(kind) for one in cases)
    late = [(one.times, one.watermark) for one in cases]
    assert late_in(spark, kind, late) == [late_of(kind, *one) for one in late]


class Case(NamedTuple):
    """Times of rows, whose offsets are their places, and two watermarks."""

    times: Sequence[int]
    previous: int | None
    watermark: int

    @property
    def rows(self) -> list[Row]:
        return rows_at(self.times)

    def closed(self, kind: WindowKind) -> list[tuple[int, int, int]]:
        """(start, end, offset) of all that closes between the two, by a plain loop."""
        return sorted(
            (window.start, window.end, offset)
            for offset, time in enumerate(self.times)
            for window in kind.windows_of(time)
            if closes(window, self.previous, self.watermark)
        )


def rows_at(times: Sequence[int]) -> list[Row]:
    return [("access", 0, n, time, "/", 1) for n, time in enumerate(times)]


def late_of(kind: WindowKind, times: Sequence[int], watermark: int) -> list[tuple[int, ...]]:
    """Offsets of the rows that come late for this watermark, by a plain loop."""
    late = (n for n, time in enumerate(times) if kind.windows_of(time)[0].end <= watermark)
    return [(offset,) for offset in late]


def closed_in(
    spark: SparkSession, kind: WindowKind, cases: Sequence[Case]
) -> list[list[tuple[int, ...]]]:
    """What Spark closes in each case."""
    columns = ("unix_micros(window_start)", "unix_micros(window_end)", "offset")
    return collected(
        closed_windows(frame(spark, one.rows), kind, one.previous, one.watermark).selectExpr(
            *columns
        )
        for one in cases
    )


def late_in(
    spark: SparkSession, kind: WindowKind, cases: Sequence[tuple[Sequence[int], int]]
) -> list[list[tuple[int, ...]]]:
    """The offsets of the rows that Spark takes for late in each case."""
    time = functions.unix_micros("event_time")
    return collected(
        frame(spark, rows_at(times))
        .where(FixedWindows(kind).late(time, watermark))
        .select("offset")
        for times, watermark in cases
    )


def collected(frames: Iterable[DataFrame]) -> list[list[tuple[int, ...]]]:
    """The rows of each frame, sorted; by one job of Spark for all of them."""
    numbered = [one.selectExpr(f"{n} AS number", "*") for n, one in enumerate(frames)]
    found: list[list[tuple[int, ...]]] = [[] for _ in numbered]
    for number, *row in reduce(type(numbered[0]).union, numbered).collect():
        found[number].append(tuple(row))
    return [sorted(rows) for rows in found]


def test_a_statement_is_checked_before_a_row_is_read(spark: SparkSession) -> None:
    silver = frame(spark, []).schema
    columns = check_statement(spark, silver, EXACT, step="sizes", line=30)
    assert columns.names == ["window_start", "window_end", "n", "median", "top"]
    assert silver.names[-1] == "bytes", "the caller's schema is as it was"


def test_times_and_ciphers_that_stay_as_they_are_are_no_reason_to_refuse(
    spark: SparkSession,
) -> None:
    statement = """SELECT *, TIMESTAMP '2026-01-01' AS a, CAST('epoch' AS TIMESTAMP) AS b,
    'now' AS c, to_date('2026-01-01') AS d, aes_encrypt('a', '0123456789abcdef', 'ECB') AS e,
    aes_encrypt('a', '0123456789abcdef', 'GCM', 'DEFAULT', unhex('000102030405060708090a0b')) AS f,
    CAST(CAST(bytes AS STRING) AS TIMESTAMP) AS g, try_to_timestamp('nowhere') AS h FROM silver"""
    found = check_statement(spark, frame(spark, []).schema, statement, step="sizes", line=30)
    assert found.names[-8:] == list("abcdefgh")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT window_start,\n  nobody FROM silver", "`nobody`.*line 31 pos 2"),
        ("SELEC 1", "does not compile"),
        ("CREATE TEMP VIEW other AS SELECT 1", "does not compile"),
        ("SELECT count(*) AS n, window_end FROM silver GROUP BY ALL", "has no window_start,"),
        ("SELECT * FROM silver WHERE rand(1) < 0.5", r"rand\(\) gives something else each time"),
        ("SELECT *, now() AS at FROM silver", r"now\(\) gives something else"),
        ("SELECT *, unix_timestamp() AS at FROM silver", r"current_timestamp\(\) gives"),
        ("SELECT *, uuid() AS id FROM silver", r"uuid\(\) gives something else"),
        ("SELECT *, current_time() AS at FROM silver", r"current_time\(\) gives something else"),
        ("SELECT *, uniform(1, 9) AS id FROM silver", r"rand\(\) gives something else"),
        ("SELECT *, TIMESTAMP 'now' AS at FROM silver", r"TIMESTAMP 'now' gives something else"),
        ('SELECT *, date" Today " AS at FROM silver', r"date\" Today \" gives something else"),
        ("SELECT *, to_timestamp('now') AS at FROM silver", r"the time 'now' gives something else"),
        ("SELECT *, CAST('to' || 'day' AS DATE) AS at FROM silver", r"the time 'today' gives some"),
        (
            "SELECT *, aes_encrypt('a', '0123456789abcdef') AS b FROM silver",
            r"aes_encrypt\(\) with",
        ),
        ("SELECT * FROM silver TABLESAMPLE (50 PERCENT)", "TABLESAMPLE gives something else"),
        (
            "SELECT * FROM silver"
            " WHERE bytes = (SELECT max(bytes) FROM silver TABLESAMPLE (50 PERCENT))",
            "TABLESAMPLE gives something else",
        ),
        (
            "SELECT * FROM silver WHERE bytes = (SELECT max(bytes) FROM silver WHERE rand() < 1)",
            r"rand\(\) gives something else",
        ),
    ],
)
def test_what_does_not_compile_is_refused_with_its_step_and_line(
    spark: SparkSession, statement: str, words: str
) -> None:
    silver = frame(spark, []).schema
    with pytest.raises(OptionError, match=rf"^\[\[gold\]\] sizes, key sql, line 30: .*{words}"):
        check_statement(spark, silver, statement, step="sizes", line=30)
    assert not spark.catalog.tableExists("other")


def test_a_users_configuration_does_not_change_what_a_statement_gives(spark: SparkSession) -> None:
    session = spark.newSession()
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    session.conf.set("spark.sql.orderByOrdinal", "false")
    session.conf.set("spark.sql.files.maxPartitionBytes", "1048576b")
    drop_other_meanings(session)
    assert session.conf.get("spark.sql.legacy.timeParserPolicy") == "CORRECTED"
    assert session.conf.get("spark.sql.orderByOrdinal") == "true"
    assert session.conf.get("spark.sql.files.maxPartitionBytes") == "1048576b"
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        session.sql("SELECT 2147483647 + 1").collect()


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("America/St_Johns", "2010-11-07T02:31:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ],
)
@pytest.mark.parametrize("slide", [DAY, 2 * DAY])
def test_days_of_a_place_are_those_that_the_watermark_counts(
    spark: SparkSession, zone: str, change: str, slide: int
) -> None:
    kind = WindowKind(2 * DAY, slide, origin=6 * 3600 * 10**6, zone=Zone(zone))
    middle = int(datetime.fromisoformat(change).timestamp()) * 10**6
    times = range(middle - 4 * DAY, middle + 4 * DAY, DAY // 48)
    cases = [Case(times, None, middle), Case(times, middle, middle + 3 * DAY)]
    assert closed_in(spark, kind, cases) == [one.closed(kind) for one in cases]
    assert all(one.closed(kind) for one in cases)
    assert late_in(spark, kind, [(times, middle)]) == [late_of(kind, times, middle)]
