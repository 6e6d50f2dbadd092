"""A gold statement in Spark SQL: checked before anything is read, and run over closed windows.

The statement reads a view named `silver`: the rows of silver that belong to the windows which close
now, with `window_start` and `window_end`. A row appears once for each of its windows.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from strandline_spark.errors import OptionError, first_line
from strandline_spark.gold.locality import VIEW, CrossesWindowsError, check_locality, each_of
from strandline_spark.silver.names import WINDOW_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.gold.watermark import GoldCommit, WindowKind

_PLACE: Final = re.compile(r"line (\d+),? pos (\d+)")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_MOVING: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_MOVING_LITERAL: Final = re.compile(
    r"\b(?:date|timestamp(?:_[ln]tz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b[^'\"]*\1",
    re.IGNORECASE,
)
"""Literals of a changing time, which Spark replaces by a time when it reads the statement."""
_RANGE: Final = re.compile(r"\brange\b", re.IGNORECASE)
_ASKED: Final = (
    *("plans.QueryPlan", "plans.logical.Sample", "expressions.RuntimeReplaceable"),
    *("expressions.AesEncrypt", "expressions.Nondeterministic", "expressions.Cast"),
)
"""Classes of Catalyst that the check of a statement asks for."""
_TRAITS: Final[dict[str, frozenset[str]]] = {}
"""The classes of `_ASKED` by the names of the classes that extend them, as far as they were met."""
_LOOKED_INTO: Final = ("CURRENT_LIKE", "CAST", "RUNTIME_REPLACEABLE", "PLAN_EXPRESSION")
"""Patterns of a tree that is walked node by node though all of it is deterministic."""
_WHERE: Final = "[[gold]] {step}, key sql, line {line}"


def check_statement(
    spark: SparkSession,
    silver: StructType,
    statement: str,
    *,
    step: str,
    line: int,
    sessions: bool = False,
) -> StructType:
    """Returns the columns that the statement gives over rows of silver; nothing is read for it.

    `line` is the statement's first line in pipeline.toml. Raises OptionError, with the step and the
    line, for a statement that does not compile, or that leaves out the window's columns. Also
    refused is a result that differs from run to run or with the other windows: `verify` computes
    gold again.
    """
    frame = compiled(spark, silver, statement, step=step, line=line)
    where = _WHERE.format(step=step, line=line)
    literal = _MOVING_LITERAL.search(statement)
    found = chain(_moving_ranges(spark, statement), _varying(frame))
    varying = literal[0] if literal is not None else next(found, None)
    if varying is not None:
        raise OptionError(
            f"{where}: {varying} gives something else each time, so"
            " no window could be computed again; take it out"
        )
    missing = [name for name in WINDOW_COLUMNS if name not in frame.columns]
    if missing:
        raise OptionError(
            f"{where}: the result has no {' and no '.join(missing)}, so it does not show which"
            " window a row is of; select both and group by them"
        )
    subquery = _patterns(spark).PLAN_EXPRESSION()
    try:
        check_locality(_analyzed(frame), sessions=sessions, subquery=subquery)
    except CrossesWindowsError as why:
        raise OptionError(
            f"{where}: what it gives must follow from each window alone: {why}"
        ) from why
    return frame.schema


def compiled(
    spark: SparkSession, silver: StructType, statement: str, *, step: str, line: int
) -> DataFrame:
    """Returns the statement over no rows of silver. Raises OptionError if it does not compile."""
    from pyspark.sql.types import StructField, StructType, TimestampType

    # `add` would change the caller's schema.
    added = [StructField(name, TimestampType()) for name in WINDOW_COLUMNS]
    columns = StructType([*silver.fields, *added])
    return _run(spark.createDataFrame([], columns), statement, step=step, line=line)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _patterns(spark: SparkSession) -> Any:
    """Returns Catalyst's TreePattern: each node of a tree knows which of them are below it."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern


def _varying(frame: DataFrame) -> Iterator[str]:
    """Yields the parts of the analyzed plan that do not follow from its rows: chance, the clock,
    the session.
    """
    jvm: Any = frame.sparkSession.sparkContext._jvm
    patterns = _patterns(frame.sparkSession)
    current = patterns.CURRENT_LIKE()
    inner = jvm.java.util.ArrayList()
    for name in _LOOKED_INTO:
        inner.add(getattr(patterns, name)())
    inner = jvm.scala.jdk.javaapi.CollectionConverters.asScala(inner).toSeq()
    left: list[tuple[Any, bool]] = [(_analyzed(frame), True)]
    while left:
        node, is_plan = left.pop()
        # Each question to the JVM takes its time, and few expressions have any of these below them.
        is_steady = node.deterministic() and not node.containsAnyPattern(inner)
        if is_steady and not is_plan:
            continue
        own = _traits(jvm, node)
        if "plans.logical.Sample" in own:
            yield "TABLESAMPLE"
        if is_steady:
            left += ((one, True) for one in each_of(node.children()))
            continue
        expressions, plans = _below(node, is_plan="plans.QueryPlan" in own)
        if "expressions.RuntimeReplaceable" in own:
            # The node itself is neutral; its replacement decides.
            expressions.append(node.replacement())
        yield from _varying_itself(node, own, current, (*expressions, *plans))
        left += ((one, False) for one in expressions)
        left += ((one, True) for one in plans)


def _varying_itself(
    node: Any, own: frozenset[str], current: Any, below: tuple[Any, ...]
) -> list[str]:
    """Returns the name of a node that varies for itself, in a list; an empty list for any other."""
    of_now = node.containsPattern(current) and not any(
        one.containsPattern(current) for one in below
    )
    if "expressions.AesEncrypt" in own and _is_salted(node):
        return ["aes_encrypt() without an initialization vector"]
    if "expressions.Nondeterministic" in own or of_now:
        return [f"{node.toString().partition('(')[0].lower()}()"]
    if (
        "expressions.Cast" in own
        and node.dataType().typeName() in _TIMES
        and node.child().dataType().typeName().startswith("string")
        and node.child().foldable()
        and not node.child().containsPattern(current)
    ):
        # A constant text: Spark takes some for the time at which the statement runs.
        text = str(node.child().eval(None))
        if _MOVING.fullmatch(text):
            return [f"the time {text.strip()!r}"]
    return []


def _moving_ranges(spark: SparkSession, statement: str) -> Iterator[str]:
    """Yields the calls of range() with changing bounds; the analyzed plan has only numbers."""
    if _RANGE.search(statement) is None:
        return
    session: Any = spark._jsparkSession
    jvm = spark.sparkContext._jvm
    left: list[Any] = [session.sessionState().sqlParser().parsePlan(statement)]
    while left:
        node = left.pop()
        expressions, plans = _below(node, is_plan="plans.QueryPlan" in _traits(jvm, node))
        name = node.getClass().getSimpleName()
        if name == "UnresolvedTableValuedFunction" and _is_range(node) and _calls(expressions):
            yield "range() with bounds that are not written as numbers"
        left += (*expressions, *plans)


def _traits(jvm: Any, node: Any) -> frozenset[str]:
    """Returns which classes of `_ASKED` the node is an instance of.

    Plans have many nodes and few classes, and each question to the JVM takes its time.
    """
    own = node.getClass()
    name = own.getName()
    found = _TRAITS.get(name)
    if found is None:
        classes = jvm.java.lang.Class
        found = frozenset(
            one
            for one in _ASKED
            if classes.forName(f"org.apache.spark.sql.catalyst.{one}").isAssignableFrom(own)
        )
        _TRAITS[name] = found
    return found


def _below(node: Any, *, is_plan: bool) -> tuple[list[Any], list[Any]]:
    """Returns the expressions and the plans of a node."""
    if is_plan:
        return list(each_of(node.expressions())), [
            *each_of(node.children()),
            *each_of(node.innerChildren()),
        ]
    return list(each_of(node.children())), list(each_of(node.innerChildren()))


def _is_range(function: Any) -> bool:
    return str(function.name().last()).lower() == "range"


def _calls(arguments: list[Any]) -> bool:
    """True if the arguments have more than numbers and what is computed from them."""
    left = list(arguments)
    while left:
        node = left.pop()
        if node.getClass().getSimpleName().startswith(("Unresolved", "Current")):
            return True
        left += each_of(node.children())
    return False


def _is_salted(encryption: Any) -> bool:
    """True if Spark draws the vector: none is given, and the mode has one."""
    vector = encryption.iv()
    is_drawn = vector.foldable() and not vector.eval(None)
    return is_drawn and encryption.mode().toString().upper() != "ECB"


def held_rows(
    rows: DataFrame, ends: Mapping[TopicPartition, int], missed: Sequence[GoldCommit] = ()
) -> DataFrame:
    """Returns the rows below `ends`, without those that were late for a commit of `missed`.

    Such a commit did not hold them, and its watermark had passed their time.
    """
    from pyspark.sql import functions as F

    held = F.col("offset") < _end(ends)
    for one in missed:
        late = F.unix_micros("event_time") < micros(one.watermark)
        held &= ~(late & (F.col("offset") >= F.coalesce(_end(one.ends), micros(0))))
    return rows.where(held)


def came_rows(rows: DataFrame, before: GoldCommit, commit: GoldCommit) -> DataFrame:
    """Returns the rows that `commit` held and the one before did not."""
    from pyspark.sql import functions as F

    offset = F.col("offset")
    return rows.where(
        (offset < _end(commit.ends)) & (offset >= F.coalesce(_end(before.ends), micros(0)))
    )


def _end(ends: Mapping[TopicPartition, int]) -> Column:
    """Returns the end of the row's partition; null for a partition that has none.

    The ends of a topic are a constant array, so each row looks up its own, and no join is planned.
    """
    from pyspark.sql import functions as F

    by_topic: dict[str, dict[int, int]] = {}
    for tp, end in ends.items():
        by_topic.setdefault(tp.topic, {})[tp.partition] = end
    found: Any = F.when(F.lit(False), F.lit(None).cast("bigint"))
    for topic, own in by_topic.items():
        text = json.dumps([own.get(partition) for partition in range(max(own) + 1)])
        its = F.get(F.from_json(F.lit(text), "array<bigint>"), F.col("partition"))
        found = found.when(F.col("topic") == topic, its)
    return cast("Column", found)


def closed_windows(
    rows: DataFrame, kind: WindowKind, previous: int | None, watermark: int
) -> DataFrame:
    """Returns the rows whose windows the watermark closes, once for each of those windows."""
    from pyspark.sql import functions as F

    time = F.unix_micros("event_time")
    first, last = _local_first(time, kind), _floor(time, kind, kind.origin)
    # Only starts of windows that close now: a row may be in thousands of others.
    last = F.least(last, micros(kind.local_end(watermark) - kind.size))
    if previous is not None:
        first = F.greatest(first, micros(kind.local_end(previous) - kind.size + kind.slide))
    framed = rows.where(first <= last).withColumn(
        "window_start",
        F.explode(F.sequence(first, last, micros(kind.slide))) if kind.slide < kind.size else last,
    )
    framed = framed.withColumn("window_end", F.col("window_start") + micros(kind.size))
    for name in WINDOW_COLUMNS:
        framed = framed.withColumn(name, F.timestamp_micros(_utc(F.col(name), kind)))
    return framed


def first_end(event_time: Column, kind: WindowKind) -> Column:
    """Returns `WindowKind.first_end` of a column of bigints."""
    return _utc(_local_first(event_time, kind) + micros(kind.size), kind)


def _local_first(event_time: Column, kind: WindowKind) -> Column:
    """Returns the start of the earliest window that holds the moment, by the zone's clocks."""
    ended = _floor(event_time, kind, kind.origin + kind.size)
    return ended + micros(kind.slide - kind.size)


def _floor(time: Column, kind: WindowKind, grid: int) -> Column:
    """Returns `WindowKind._floor` of a column of bigints."""
    from pyspark.sql import functions as F

    local = time
    if kind.zone is not None:
        local = F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(time), kind.zone.name))
    since = local - micros(grid)
    at = since - F.pmod(since, micros(kind.slide)) + micros(grid)
    if kind.zone is None:
        return at
    later = at + micros(kind.slide)
    return (
        F.when(_utc(later, kind) <= time, later)
        .when(_utc(at, kind) <= time, at)
        .otherwise(at - micros(kind.slide))
    )


def _utc(local: Column, kind: WindowKind) -> Column:
    from pyspark.sql import functions as F

    if kind.zone is None:
        return local
    return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(local), kind.zone.name))


def micros(value: int) -> Column:
    """Returns a bigint. Spark takes a small number for an int, whose products end at 36 minutes."""
    from pyspark.sql import functions as F

    return F.lit(value).cast("bigint")


def run_statement(windows: DataFrame, statement: str, *, step: str, line: int) -> DataFrame:
    """Runs the statement over `closed_windows`."""
    return _run(windows, statement, step=step, line=line)


def _run(view: DataFrame, statement: str, *, step: str, line: int) -> DataFrame:
    """Runs the statement. Spark resolves the view at once, so the next step's may take its name."""
    from pyspark.errors import AnalysisException

    view.createOrReplaceTempView(VIEW)
    try:
        # In brackets only a query compiles; without them a command would be executed here.
        frame = view.sparkSession.sql(f"SELECT * FROM (\n{statement}\n)")
    except AnalysisException as why:
        text = _PLACE.sub(
            lambda found: f"line {line + int(found[1]) - 2} pos {found[2]}", first_line(why)
        )
        raise OptionError(
            f"{_WHERE.format(step=step, line=line)}: the statement does not compile: {text}"
        ) from why
    for name in frame.columns:
        if name.lower() in WINDOW_COLUMNS and name.lower() not in frame.columns:
            frame = frame.withColumnRenamed(name, name.lower())
    return frame
