"""Which gold statements give of each window the same rows, whatever windows close with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.gold.query import check_statement, run_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = "user string, x double, n int, event_time timestamp"
WINDOWS: Final = [(0, 10), (0, 20), (10, 20)]
"""The first two begin together, as sessions may; fixed windows are the first and the last."""
ALONE: Final = [
    "SELECT * FROM silver",
    "SELECT DISTINCT user, window_start, window_end FROM silver",
    "SELECT *, rank() OVER (PARTITION BY window_end ORDER BY x) r FROM silver",
    "SELECT window_start, window_end, user, sum(count(*)) OVER (PARTITION BY window_end)"
    " FROM silver GROUP BY ALL HAVING count(*) > 1",
    "SELECT min(window_start) AS window_start, window_end, max(x) FROM silver GROUP BY window_end",
    "SELECT window_start, window_end, user, count(*) FROM silver"
    " GROUP BY GROUPING SETS ((window_start, window_end, user), (window_start, window_end))",
    "SELECT window_start, window_end, user, count(*) FROM silver"
    " GROUP BY window_start, window_end, ROLLUP(user)",
    "WITH t AS (SELECT window_end AS e, count(*) n FROM silver GROUP BY 1), u AS (SELECT * FROM t)"
    " SELECT s.window_start, s.window_end, u.n FROM silver s JOIN u ON s.window_end = u.e",
    "SELECT window_start, window_end, c.x, d.n FROM (SELECT * FROM silver WHERE user = 'a') c"
    " FULL JOIN (SELECT * FROM silver WHERE n > 1) d USING (window_start, window_end)",
    "SELECT coalesce(c.window_start, d.window_start) AS window_start,"
    " coalesce(d.window_end, c.window_end) AS window_end, d.x FROM (SELECT * FROM silver WHERE"
    " user = 'a') c FULL JOIN silver d ON c.window_end = d.window_end",
    "SELECT a.* FROM silver a LEFT ANTI JOIN silver b ON a.window_end = b.window_end AND a.x < b.x",
    "SELECT *, (SELECT avg(x) FROM silver t WHERE t.window_end = s.window_end) AS m FROM silver s",
    "SELECT * FROM silver s WHERE EXISTS (SELECT 1 FROM silver t"
    " WHERE s.window_end = t.window_end AND t.x > s.x)",
    "SELECT * FROM silver WHERE (user, window_end) NOT IN"
    " (SELECT user, window_end FROM silver WHERE n > 1)",
    "SELECT s.*, t.y FROM silver s, LATERAL (SELECT x AS y FROM silver t"
    " WHERE t.window_end = s.window_end ORDER BY x DESC LIMIT 1) t",
    "SELECT s.*, w FROM silver s JOIN VALUES ('a', 1), ('b', 2) AS v(u, w) ON user = u",
    "SELECT s.*, id FROM silver s LEFT JOIN range(1, 3) ON n = id",
    "SELECT s.*, e FROM silver s LATERAL VIEW explode(array(n, 7)) AS e",
    "SELECT * FROM silver WHERE user IN (SELECT * FROM VALUES ('a'))",
    "SELECT window_start, window_end, user FROM silver UNION"
    " SELECT window_start, window_end, 'z' FROM silver EXCEPT"
    " SELECT window_start, window_end, 'a' FROM silver",
    "SELECT * FROM (SELECT window_start, window_end, user, x FROM silver)"
    " PIVOT (sum(x) FOR user IN ('a', 'b'))",
    "SELECT * FROM silver UNPIVOT (v FOR c IN (x, n)) ORDER BY v",
    "FROM silver |> AGGREGATE count(*) c GROUP BY window_start, window_end |> WHERE c > 1",
    "WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 5)"
    " SELECT s.* FROM silver s JOIN r ON n = k",
]
TOGETHER: Final = [
    ("SELECT *, lag(x) OVER (PARTITION BY user ORDER BY window_start) b FROM silver", r"lag\(x"),
    ("SELECT *, rank() OVER (ORDER BY x) r FROM silver", r"window function rank\(x\) AS r|rank"),
    ("SELECT *, sum(x) OVER () r FROM silver", "PARTITION BY window_start or window_end"),
    (
        "SELECT *, lag(c) OVER (ORDER BY window_start) b FROM"
        " (SELECT window_start, window_end, count(*) c FROM silver GROUP BY ALL)",
        "the window function lag",
    ),
    ("SELECT *, (SELECT max(x) FROM silver) m FROM silver", r"the aggregate max\(x\)"),
    ("SELECT * FROM silver WHERE x > (SELECT avg(x) FROM silver)", r"the aggregate avg\(x\)"),
    (
        "SELECT * FROM silver s WHERE x > (SELECT avg(x) FROM silver t WHERE t.user = s.user)",
        r"aggregate avg\(x\)",
    ),
    ("SELECT * FROM silver WHERE user IN (SELECT user FROM silver)", "a subquery reads rows of"),
    (
        "SELECT * FROM silver s WHERE EXISTS (SELECT 1 FROM silver t"
        " WHERE t.window_start = s.window_start OR t.x > s.x)",
        "a subquery reads rows of other windows",
    ),
    (
        "SELECT window_start, window_end, count(*) FROM silver GROUP BY ALL"
        " HAVING count(*) > (SELECT count(*) FROM silver) / 2",
        r"the aggregate count\(1\)",
    ),
    ("SELECT min(window_start) window_start, max(window_end) window_end FROM silver", "aggregate"),
    (
        "SELECT window_start, window_end FROM silver GROUP BY ROLLUP(window_start, window_end)",
        "agg",
    ),
    ("SELECT window_start, window_end, x FROM silver GROUP BY CUBE(window_start, 2, x)", "aggreg"),
    ("SELECT a.* FROM silver a JOIN silver b ON a.user = b.user", "a join compares rows of sev"),
    ("SELECT a.* FROM silver a JOIN silver b ON a.window_start = b.window_end", "a join compares"),
    ("SELECT a.* FROM silver a, silver b", "a join compares"),
    ("SELECT a.* FROM silver a LEFT ANTI JOIN silver b ON a.x < b.x", "a join compares"),
    ("SELECT a.* FROM silver a JOIN (SELECT DISTINCT user FROM silver) b USING (user)", "DISTINCT"),
    ("WITH t AS (SELECT count(*) k FROM silver) SELECT s.*, k FROM silver s CROSS JOIN t", "count"),
    ("SELECT s.* FROM VALUES ('a') AS v(u) LEFT JOIN silver s ON user = u", r"join \(LeftOuter\)"),
    (
        "SELECT b.* FROM silver a LEFT JOIN silver b ON a.window_end = b.window_end AND b.n > a.n",
        "window_end of the result is not that of silver",
    ),
    (
        "SELECT window_start, window_end FROM silver UNION ALL"
        " SELECT window_end, window_start FROM silver",
        "UNION is over rows of several",
    ),
    (
        "SELECT window_start, window_end FROM silver UNION ALL"
        " SELECT timestamp'2026-01-01', timestamp'2026-01-02'",
        "UNION has rows that are of no window",
    ),
    (
        "SELECT * FROM silver WHERE user NOT IN (SELECT user FROM silver EXCEPT SELECT 'a')",
        "EXCEPT",
    ),
    ("SELECT * FROM silver ORDER BY x LIMIT 3", "LIMIT or OFFSET is over"),
    ("SELECT * FROM (TABLE silver) OFFSET 2", "LIMIT or OFFSET is over"),
    ("SELECT s.* FROM silver s, LATERAL (SELECT x FROM silver ORDER BY x LIMIT 2) t", "LIMIT"),
    (
        "SELECT window_start, window_end + INTERVAL 1 HOUR AS window_end FROM silver",
        "window_end of",
    ),
    (
        "SELECT * FROM VALUES (timestamp'2026-01-01', timestamp'2026-01-02')"
        " AS v(window_start, window_end)",
        "it reads nothing of silver",
    ),
    (
        "WITH silver AS (SELECT timestamp'2026-01-01' AS window_start,"
        " timestamp'2026-01-02' AS window_end) SELECT * FROM silver",
        "it reads nothing of silver",
    ),
    (
        "SELECT TRANSFORM (window_start, window_end) USING 'cat'"
        " AS (window_start timestamp, window_end timestamp) FROM silver",
        "it has ScriptTransformation",
    ),
]


def frame(spark: SparkSession) -> DataFrame:
    """Rows of all windows as constants of the plan: none is brought from Python to each job."""
    rows = ", ".join(
        f"('{user}', {n * n % 7 + (start + end) % 3}D, {n % 4}, {start}, {end})"
        for n, user in enumerate("abacab")
        for at, (start, end) in enumerate(WINDOWS)
        if n != at
    )
    return spark.sql(
        "SELECT user, x, n, CAST(NULL AS TIMESTAMP) AS event_time, timestamp_seconds(s) AS"
        " window_start, timestamp_seconds(e) AS window_end"
        f" FROM VALUES {rows} AS t(user, x, n, s, e)"
    )


@pytest.mark.parametrize("statement", ALONE)
def test_what_is_let_through_gives_the_same_over_all_windows_and_over_each_alone(
    spark: SparkSession, statement: str
) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    for sessions in (False, True):
        check_statement(spark, silver, statement, step="s", line=1, sessions=sessions)

    every = frame(spark)
    views = [every, *(every.where(f"window_end = timestamp_seconds({end})") for end in (10, 20))]
    # One job of Spark for all three.
    given = [
        run_statement(view, statement, step="s", line=1).selectExpr(f"{n} AS of_view", "*")
        for n, view in enumerate(views)
    ]
    rows: list[list[str]] = [[], [], []]
    for row in given[0].union(given[1]).union(given[2]).toArrow().to_pylist():
        rows[row.pop("of_view")].append(str(row))
    assert rows[1]
    assert rows[2]
    assert sorted(rows[0]) == sorted(rows[1] + rows[2])


@pytest.mark.parametrize(("statement", "words"), TOGETHER)
def test_what_brings_windows_together_is_refused_with_what_to_write(
    spark: SparkSession, statement: str, words: str
) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    at = r"^\[\[gold\]\] s, key sql, line 9: what it gives must follow from each window alone: .*"
    with pytest.raises(OptionError, match=at + f"(?:{words})"):
        check_statement(spark, silver, statement, step="s", line=9)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT *, rank() OVER (PARTITION BY window_start ORDER BY x) r FROM silver",
        "SELECT window_start, max(window_end) AS window_end FROM silver GROUP BY window_start",
        "SELECT a.* FROM silver a JOIN silver b ON a.window_start = b.window_start",
        "SELECT * FROM silver s WHERE EXISTS (SELECT 1 FROM silver t"
        " WHERE t.window_start = s.window_start AND t.x > s.x)",
    ],
)
def test_of_sessions_the_end_alone_tells_what_closes_together(
    spark: SparkSession, statement: str
) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    with pytest.raises(OptionError, match="window_end"):
        check_statement(spark, silver, statement, step="s", line=1, sessions=True)


@pytest.mark.parametrize("choice", ["max", "min", "first", "any_value"])
def test_of_fixed_windows_the_start_tells_the_end(spark: SparkSession, choice: str) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    chosen = f"SELECT window_start, {choice}(window_end) AS window_end, count(*) FROM silver"
    check_statement(spark, silver, f"{chosen} GROUP BY window_start", step="s", line=1)
    other = chosen.replace("(window_end)", "(window_end) FILTER (WHERE n > 1)")
    for statement, sessions in ((other, False), (chosen, True)):
        grouped = f"{statement} GROUP BY window_start"
        with pytest.raises(OptionError, match=r"window_end|several windows"):
            check_statement(spark, silver, grouped, step="s", line=1, sessions=sessions)


def test_files_beside_silver_are_refused(spark: SparkSession, tmp_path: object) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    spark.range(3).write.parquet(f"{tmp_path}/parquet")
    spark.range(3).selectExpr("cast(id AS string)").write.text(f"{tmp_path}/text")
    for statement in (
        f"SELECT s.* FROM silver s JOIN parquet.`{tmp_path}/parquet` ON n = id",
        f"SELECT * FROM silver WHERE n IN (SELECT id FROM parquet.`{tmp_path}/parquet`)",
        f"SELECT s.* FROM silver s JOIN text.`{tmp_path}/text` ON user = value",
        f"SELECT s.* FROM silver s JOIN csv.`{tmp_path}/text` ON user = _c0",
        f"WITH t AS (FROM json.`{tmp_path}/text`) SELECT s.* FROM silver s, t",
    ):
        with pytest.raises(OptionError, match=r"it reads Relation .*, which may change.* VALUES"):
            check_statement(spark, silver, statement, step="s", line=1)


@pytest.mark.parametrize("bounds", ["unix_timestamp()", "0, year(current_date)", "year(now()) - 1"])
def test_bounds_that_move_are_refused(spark: SparkSession, bounds: str) -> None:
    silver = spark.createDataFrame([], SCHEMA).schema
    statement = f"WITH t AS (SELECT id FROM range({bounds})) SELECT s.* FROM silver s, t"
    with pytest.raises(OptionError, match=r"range\(\) with bounds .* gives something else each"):
        check_statement(spark, silver, statement, step="s", line=1)
    check_statement(spark, silver, "SELECT s.* FROM silver s, range(-1, 3)", step="s", line=1)
