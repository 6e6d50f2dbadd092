"""The tolerance between two results of a statement, because sums of floats are rounded.

A sum depends on the order in which Spark adds, by a share of the terms. If large terms cancel, that
is much more than a share of the sum. So the size of the terms is measured. The statement runs again
with each term of each sum changed by a tiny share, up or down. The resulting change of a value is
its tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

SHARE: Final = 1e-12
"""Share of a change. The error of a sum of a hundred million terms is many times smaller, as a
share of their size.
"""
_SUMS: Final = frozenset(
    (
        *("Sum", "Average", "StddevSamp", "StddevPop", "VarianceSamp", "VariancePop", "Skewness"),
        *("Kurtosis", "Corr", "CovPopulation", "CovSample", "RegrSlope", "RegrIntercept"),
        *("RegrR2", "RegrSXX", "RegrSXY", "RegrSYY", "RegrAvgX", "RegrAvgY"),
    )
)
"""Spark's aggregate functions that add floats."""
_NUMBERS: Final = frozenset(("double", "float", "bigint", "int", "smallint", "tinyint"))
"""Types of numbers: an average adds whole numbers as doubles too."""


def nudged(frame: DataFrame, share: float) -> DataFrame:
    """Returns the frame of a statement with changed sums of floats.

    Each term x is multiplied by a number between 1 - `share` and 1 + `share` that follows from x.
    """
    from pyspark.sql import DataFrame as Frame

    session: Any = frame.sparkSession
    plan = _Nudge(session, share).plan(frame._jdf.queryExecution().analyzed())
    dataset = session.sparkContext._jvm.org.apache.spark.sql.classic.Dataset
    return Frame(dataset.ofRows(session._jsparkSession, plan), session)


class _Nudge:
    """Plans and expressions of Spark's JVM, rebuilt with changed terms."""

    def __init__(self, session: Any, share: float) -> None:
        self._session = session._jsparkSession
        self._jvm = session.sparkContext._jvm
        self._share = share

    def plan(self, node: Any) -> Any:
        name = node.getClass().getSimpleName()
        if name == "View":
            return node
        node = self._with_children(node, self.plan)
        if name == "Aggregate":
            return node.copy(
                node.groupingExpressions(),
                self._each(node.aggregateExpressions(), self._expression),
                node.child(),
                node.hint(),
            )
        if name == "Window":
            return node.copy(
                self._each(node.windowExpressions(), self._expression),
                node.partitionSpec(),
                node.orderSpec(),
                node.child(),
                node.hint(),
            )
        return node

    def _expression(self, node: Any) -> Any:
        is_sum = node.getClass().getSimpleName() in _SUMS and node.dataType().typeName() == "double"
        return self._with_children(node, self._term if is_sum else self._expression)

    def _term(self, node: Any) -> Any:
        from pyspark.sql import Column
        from pyspark.sql import functions as F

        if node.dataType().typeName() not in _NUMBERS:
            return node
        utils = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        term: Any = Column(utils.column(node))
        part = F.xxhash64(term) / F.lit(2.0**63)
        changed: Any = term.cast("double") * (F.lit(1.0) + F.lit(self._share) * part)
        return self._session.expression(changed._jc)

    def _with_children(self, node: Any, change: Callable[[Any], Any]) -> Any:
        children = node.children()
        if children.isEmpty():
            return node
        return node.withNewChildren(self._each(children, change))

    def _each(self, seq: Any, change: Callable[[Any], Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for n in range(seq.size()):
            made.add(change(seq.apply(n)))
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()
