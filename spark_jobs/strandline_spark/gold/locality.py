"""The check that a gold statement gives the same rows for each window, whatever windows it runs
over.

How micro-batches were cut decides which windows close together. So each operator of the analyzed
plan must treat the rows of one window apart from those of all others. An aggregate groups by the
window, a window function is partitioned by it, a join compares it. Then the statement over many
windows gives the same as over each of them alone. An operator without this known property is
refused, and so is every source other than silver.

Columns are followed by the ids that Spark gives to them, whatever their names are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.silver.names import WINDOW_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

VIEW: Final = "silver"
"""The view that a statement reads: the rows of the windows that close."""

_PASSING: Final = frozenset(
    (
        *("SubqueryAlias", "Filter", "Sort", "Generate", "ResolvedHint", "Repartition"),
        *("RepartitionByExpression", "RebalancePartitions", "PipeOperator", "CTERelationDef"),
        "LateralJoin",
    )
)
"""Operators that give rows of their child, or for each row some of its own."""
_CONSTANT: Final = frozenset(("OneRowRelation", "LocalRelation", "Range", "UnionLoopRef"))
_CHOOSING: Final = frozenset(("Max", "Min", "First", "Last", "AnyValue"))
_LIMITS: Final = frozenset(("GlobalLimit", "LocalLimit", "Offset", "Tail"))
_DISTINCT: Final = frozenset(("Distinct", "Deduplicate"))
_ALONE: Final = _LIMITS | _DISTINCT | {"Window"}
"""Operators that give rows of their child, and need to see each window alone."""
_KEEPS_LEFT: Final = frozenset(("LeftOuter", "LeftSemi", "LeftAnti", "LeftSingle"))
_SHOWN: Final = 80
"""Number of characters of a node that a message shows."""
_ID: Final = re.compile(r"#\d+L?")


class CrossesWindowsError(Exception):
    """A part of the statement crosses windows; the message names it and the replacement."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The known facts about an operator's rows."""

    of_silver: bool = False
    """True if the rows are of silver; False if they are the same each time."""
    one_window: bool = False
    """True if all rows are of the window of the outer query's row."""
    keys: Mapping[int, str] = field(default_factory=dict)
    """`window_start` or `window_end` by the id of the column that holds it."""
    halves: Mapping[frozenset[int], str] = field(default_factory=dict)
    """Pairs of columns, of which at least one holds what `keys` would say; one may be null."""


class _Plan:
    """The plan of one statement.

    `enough` has the columns of which each alone distinguishes rows that may close in different
    commits. Sessions that begin together need not end together. `subquery` is the pattern of a tree
    that has subqueries.
    """

    def __init__(self, enough: Sequence[str], subquery: Any) -> None:
        self._enough = enough
        self._subquery = subquery
        self._ctes: dict[int, tuple[list[int], _Rows]] = {}

    def rows(self, node: Any, outer: _Rows) -> _Rows:
        """Returns the facts about the node's rows. Raises CrossesWindowsError."""
        name = _name(node)
        if name == "View" and node.desc().identifier().table() == VIEW:
            columns = ((one.exprId().id(), one.name()) for one in each_of(node.output()))
            return _Rows(True, keys={i: its for i, its in columns if its in WINDOW_COLUMNS})
        if name == "CTERelationRef":
            ids, of_definition = self._ctes[node.cteId()]
            return _renamed(of_definition, ids, _ids(node))
        if name in _CONSTANT:
            return _Rows()
        if name == "WithCTE":
            for one in each_of(node.cteDefs()):
                self._ctes[one.id()] = (_ids(one), self.rows(one, outer))
            return self.rows(node.plan(), outer)
        below = [self.rows(one, outer) for one in each_of(node.children())]
        if not below:
            raise CrossesWindowsError(
                f"it reads {_shown(node)}, which may change, so a window could not be computed"
                " again; read the view silver alone, and write small tables as VALUES"
            )
        self._check_subqueries(node, below)
        if name == "Join":
            return self._join(node, *below)
        if name in ("Union", "Intersect", "Except", "UnionLoop"):
            return self._set_operation(name, node, below)
        return self._of_one(name, node, below[0], outer)

    def _of_one(self, name: str, node: Any, rows: _Rows, outer: _Rows) -> _Rows:
        """Returns the facts about the rows of an operator with one child."""
        if name == "Filter" and self._is_pinned(node.condition(), rows, outer):
            rows = replace(rows, one_window=True)
        if rows.of_silver and not rows.one_window:
            self._check_alone(name, node, rows)
        if name in _PASSING or name in _ALONE:
            return rows
        if name == "Expand":
            return _expanded(node, rows)
        if name in ("Project", "Aggregate"):
            is_project = name == "Project"
            columns = node.projectList() if is_project else node.aggregateExpressions()
            return _projected(each_of(columns), rows)
        raise CrossesWindowsError(
            f"it has {_shown(node)}, which is not known to treat each window alone; take it out"
        )

    def _check_alone(self, name: str, node: Any, rows: _Rows) -> None:
        """Raises CrossesWindowsError for an operator that brings rows of windows together."""
        if name in _LIMITS:
            raise CrossesWindowsError(
                "LIMIT or OFFSET is over rows of several windows; for the first rows of each"
                f" window write row_number() OVER (PARTITION BY {self._enough[0]} ORDER BY ...)"
            )
        if name == "Aggregate" and not self._has_key(each_of(node.groupingExpressions()), rows):
            columns = ", ".join(_shown(one) for one in each_of(node.aggregateExpressions()))
            raise CrossesWindowsError(
                f"the aggregate {columns[:_SHOWN]} is over rows of several windows; group it by"
                " window_start and window_end"
            )
        if name == "Window" and not self._has_key(each_of(node.partitionSpec()), rows):
            functions = (_shown(one) for one in each_of(node.windowExpressions()))
            shown = ", ".join(one.partition(" windowspec")[0] for one in functions)
            raise CrossesWindowsError(
                f"the window function {shown[:_SHOWN]} is over rows of several windows; write"
                f" PARTITION BY {' or '.join(self._enough)} (and more) in its OVER"
            )
        if name in _DISTINCT and not self._has_key(each_of(node.output()), rows):
            raise CrossesWindowsError(
                "DISTINCT is over rows of several windows; select window_start and window_end"
                " there too"
            )

    def _join(self, node: Any, left: _Rows, right: _Rows) -> _Rows:
        kind = node.joinType().toString()
        keeps_left = kind in _KEEPS_LEFT or kind.startswith("ExistenceJoin")
        if kind in ("Inner", "Cross"):
            kept, one_window = {**left.keys, **right.keys}, left.one_window or right.one_window
        elif keeps_left:
            kept, one_window = dict(left.keys), left.one_window
        elif kind == "RightOuter":
            kept, one_window = dict(right.keys), right.one_window
        else:
            kept, one_window = {}, left.one_window and right.one_window
        if not (left.of_silver and right.of_silver):
            all_kept = left if keeps_left else right
            if left.of_silver == right.of_silver:
                return _Rows()
            if kind in ("Inner", "Cross") or (kind != "FullOuter" and all_kept.of_silver):
                return _Rows(True, one_window, kept)
            raise CrossesWindowsError(
                f"a join ({kind}) keeps rows that are of no window of silver; put silver on the"
                " side whose rows are all kept"
            )
        alone = left.one_window and right.one_window
        if not (alone or self._is_equal(node.condition(), left, right)):
            raise CrossesWindowsError(
                "a join compares rows of several windows; add the condition that"
                f" {' or '.join(self._enough)} of both sides is equal"
            )
        halves = {}
        if kind == "FullOuter":
            halves = {
                frozenset((one, other)): name
                for one, name in left.keys.items()
                for other, its in right.keys.items()
                if name == its
            }
        return _Rows(True, one_window, kept, halves)

    def _set_operation(self, name: str, node: Any, below: list[_Rows]) -> _Rows:
        if not any(one.of_silver for one in below):
            return _Rows()
        alone = all(one.one_window or not one.of_silver for one in below)
        columns = [_ids(one) for one in each_of(node.children())]
        compared = below if name in ("Union", "UnionLoop") else below[:1]
        if name == "UnionLoop" or not (alone or all(one.of_silver for one in compared)):
            raise CrossesWindowsError(
                f"{name.upper()} has rows that are of no window of silver; take them out"
            )
        by_place = [
            {place: rows.keys[i] for place, i in enumerate(ids) if i in rows.keys}
            for rows, ids in zip(below, columns, strict=True)
            if rows.of_silver
        ]
        shared = {
            place: kind
            for place, kind in by_place[0].items()
            if all(other.get(place) == kind for other in by_place)
        }
        if not (alone or self._enough_of(shared.values())):
            raise CrossesWindowsError(
                f"{name.upper()} is over rows of several windows; select window_start and"
                " window_end in the same places on both sides"
            )
        ids = _ids(node)
        return _Rows(True, alone, {ids[place]: kind for place, kind in shared.items()})

    def _check_subqueries(self, node: Any, below: list[_Rows]) -> None:
        """Checks that a subquery is the same each time, or that its rows are of the outer row's
        window.
        """
        if not node.containsPattern(self._subquery):
            return
        around = _Rows(True, False, {i: kind for one in below for i, kind in one.keys.items()})
        for expression in each_of(node.expressions()):
            if not expression.containsPattern(self._subquery):
                continue
            for one, values in _subqueries(expression, ()):
                inner = self.rows(one.plan(), around)
                if not inner.of_silver or inner.one_window:
                    continue
                pairs = zip(values, _ids(one.plan()), strict=False)
                kinds = [
                    around.keys.get(_id(value))
                    for value, i in pairs
                    if i in inner.keys and around.keys.get(_id(value)) == inner.keys[i]
                ]
                if not self._enough_of(kind for kind in kinds if kind is not None):
                    raise CrossesWindowsError(
                        "a subquery reads rows of other windows; give it the condition that"
                        f" {' or '.join(self._enough)} is that of the outer row, or join it so"
                    )

    def _is_pinned(self, condition: Any, rows: _Rows, outer: _Rows) -> bool:
        """True if the condition says that rows are of the outer row's window."""
        return self._enough_of(
            kind
            for a, b in _equalities(condition)
            for one, other in ((a, b), (b, a))
            if _name(other) == "OuterReference"
            and (kind := rows.keys.get(_id(one))) is not None
            and outer.keys.get(_id(other.e())) == kind
        )

    def _is_equal(self, condition: Any, left: _Rows, right: _Rows) -> bool:
        if not condition.isDefined():
            return False
        return self._enough_of(
            kind
            for a, b in _equalities(condition.get())
            for one, other in ((_id(a), _id(b)), (_id(b), _id(a)))
            if (kind := left.keys.get(one)) is not None and right.keys.get(other) == kind
        )

    def _has_key(self, expressions: Iterator[Any], rows: _Rows) -> bool:
        return self._enough_of(
            kind for one in expressions if (kind := _kind(one, rows)) is not None
        )

    def _enough_of(self, kinds: Iterator[str] | Collection[str]) -> bool:
        return any(kind in self._enough for kind in kinds)


def check_locality(plan: Any, *, sessions: bool, subquery: Any) -> None:
    """Checks the analyzed plan of a statement over the view silver, as Spark's JVM has it. Raises
    CrossesWindowsError. `subquery` is Catalyst's pattern PLAN_EXPRESSION.
    """
    enough = ("window_end",) if sessions else WINDOW_COLUMNS
    found = _Plan(enough, subquery).rows(plan, _Rows())
    if not found.of_silver:
        raise CrossesWindowsError("it reads nothing of silver; give a SELECT over the view silver")
    ends = [one for one in each_of(plan.output()) if one.name() == "window_end"]
    if not all(found.keys.get(_id(one)) == "window_end" for one in ends):
        raise CrossesWindowsError(
            "window_end of the result is not that of silver; select it as it is there"
        )


def _projected(columns: Iterator[Any], rows: _Rows) -> _Rows:
    keys = {_id(one): kind for one in columns if (kind := _kind(one, rows)) is not None}
    return replace(rows, keys=keys, halves={})


def _expanded(node: Any, rows: _Rows) -> _Rows:
    """Returns the facts about GROUPING SETS and UNPIVOT: several rows for each, in which a column
    may be null.
    """
    columns = [[_kind(one, rows) for one in each_of(row)] for row in each_of(node.projections())]
    keys = {
        i: kinds[0]
        for i, kinds in zip(_ids(node), zip(*columns, strict=True), strict=True)
        if kinds[0] is not None and len(set(kinds)) == 1
    }
    return replace(rows, keys=keys, halves={})


def _renamed(rows: _Rows, ids: list[int], others: list[int]) -> _Rows:
    new = dict(zip(ids, others, strict=True))
    keys = {new[i]: kind for i, kind in rows.keys.items() if i in new}
    return replace(rows, keys=keys, halves={})


def _kind(expression: Any, rows: _Rows) -> str | None:
    """Returns `window_start` or `window_end` if a column is that of the row, under any name; None
    if not.
    """
    name = _name(expression)
    if name == "Alias":
        return _kind(expression.child(), rows)
    if name == "AggregateExpression" and not expression.filter().isDefined():
        # The rows are grouped by the window, so there is only one value to choose.
        chosen = expression.aggregateFunction()
        return _kind(chosen.child(), rows) if _name(chosen) in _CHOOSING else None
    if name == "Coalesce":
        return rows.halves.get(frozenset(_id(one) for one in each_of(expression.children())))
    return rows.keys.get(_id(expression))


def _subqueries(expression: Any, values: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yields each subquery with the values that IN looks for in it."""
    name = _name(expression)
    if name == "InSubquery":
        yield from _subqueries(expression.query(), tuple(each_of(expression.values())))
        below = expression.values()
    else:
        if name in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"):
            yield expression, values
        below = expression.children()
    for one in each_of(below):
        yield from _subqueries(one, ())


def _equalities(condition: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the equalities that hold in every row that the condition lets through."""
    name = _name(condition)
    if name == "And":
        yield from _equalities(condition.left())
        yield from _equalities(condition.right())
    elif name in ("EqualTo", "EqualNullSafe"):
        yield condition.left(), condition.right()


def _id(expression: Any) -> int:
    """Returns the id of a column; -1 for any other expression."""
    if _name(expression) not in ("AttributeReference", "Alias"):
        return -1
    found: int = expression.exprId().id()
    return found


def _ids(plan: Any) -> list[int]:
    return [one.exprId().id() for one in each_of(plan.output())]


def each_of(seq: Any) -> Iterator[Any]:
    """Yields the elements of a Scala sequence."""
    for n in range(seq.size()):
        yield seq.apply(n)


def _name(node: Any) -> str:
    """Returns the node's class. Spark's own `toString` begins with it only for some nodes."""
    # `nodeName` is that, with ALL for some set operations, and one call where a class takes two.
    found: str = node.nodeName()
    return found.partition(" ")[0]


def _shown(node: Any) -> str:
    return _ID.sub("", str(node.toString()).partition("\n")[0])[:_SHOWN]
