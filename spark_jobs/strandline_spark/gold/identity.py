"""The test that two steps compute the same: by the plan that Spark makes of their statements, or by
their words without comments, white space and capitals.

The plan detects two spellings of one statement as the same. The words stay the same if a column of
silver becomes wider and the plan gets another type. One match is enough.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.gold.query import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.pipeline.steps import GoldStep

_WORDS: Final = re.compile(
    r"""
    (?P<skipped>--[^\n]*|/\*.*?\*/|\s+)
    |(?P<text>[rR]?'(?:\\.|[^'\\])*'|[rR]?"(?:\\.|[^"\\])*")
    |(?P<name>`(?:``|[^`])*`)
    |(?P<word>\w+)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LEAVES: Final = ("LocalRelation", "LogicalRDD")
_WRAPPERS: Final = ("SubqueryAlias", "View")
"""Nodes of a plan that only give a name to the node below."""
_COSMETIC: Final = frozenset(
    (
        *("name", "qualifier", "metadata", "explicitMetadata", "nonInheritableMetadataKeys"),
        *("jvmId", "origin", "sameOrderExpressions"),
    )
)
_NUMBERED: Final = re.compile(r"\w*#\d+L?|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+")


def identity_of(spark: SparkSession, step: GoldStep, silver: StructType) -> str:
    """Returns the identity of the step's definition that a commit keeps; `is_same` compares two."""
    frame = compiled(spark, silver, step.sql, step=step.name, line=step.line)
    plan = frame._jdf.queryExecution().analyzed()
    named = [one.lower() for one in frame.columns]
    return f"{_hash(step, [named, *_of_plan(plan)])}:{_hash(step, words(step.sql))}"


def is_same(known: str, step: GoldStep, identity: str) -> bool:
    """True if a commit with the definition `known` is of a step with the same computation. Earlier
    versions kept a hash of the exact text.
    """
    if ":" not in known:
        plain = step.zone is None and step.offset == 0 and not step.updates
        return plain and known == _hash_of_text(step)
    return any(a == b for a, b in zip(known.split(":"), identity.split(":"), strict=True))


def words(statement: str) -> list[str]:
    """Returns the words without comments and white space; in small letters except in texts."""
    return [
        one[0] if one["text"] is not None else one[0].lower()
        for one in _WORDS.finditer(statement)
        if one["skipped"] is None
    ]


def _hash(step: GoldStep, statement: Any) -> str:
    key = [name.lower() for name in step.session_key]
    parts = [statement, step.window, step.slide or step.window, step.session, key]
    if step.zone is not None or step.offset != 0:  # a commit of before has neither
        parts.append([step.zone, step.offset])
    if step.updates:  # nor this
        parts.append("late rows update")
    return _digest(parts)


def _hash_of_text(step: GoldStep) -> str:
    return _digest([step.sql, step.window, step.slide, step.session, list(step.session_key)])


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _of_plan(plan: Any) -> list[Any]:
    """Returns an analyzed plan without the names and numbers of its session. The JSON leaves out
    values without a form, so the text is added to it.
    """
    nodes = [node for node in _Plan().nodes(json.loads(plan.toJSON())) if node is not None]
    hidden = (*_LEAVES, *_WRAPPERS)
    lines = [
        _NUMBERED.sub("#", line).lower()
        for line in plan.toString().splitlines()
        if not any(name in line for name in hidden)
    ]
    return [nodes, [line.lstrip(" :+-") for line in lines]]


class _Plan:
    """One plan's JSON, with the numbers of its columns replaced in the order of their places."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._made = 0
        self._leaves = 0

    def nodes(self, found: list[Any]) -> list[Any]:
        for node in _all_dicts(found):
            if _kind(node) in _LEAVES:
                for column in node.get("output", ()):
                    for one in column:
                        key = f"exprId {one['exprId']['id']}"
                        self._numbers[key] = f"{self._leaves}.{one['name'].lower()}"
                self._leaves += 1
        return [self._plain(node) for node in found]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            plain = (self._plain(one) for one in value)
            return [one for one in plain if one is not None]
        if not isinstance(value, dict):
            return str(value)
        if _kind(value) in _WRAPPERS:
            return None
        if _kind(value) in _LEAVES:
            return "silver"
        return {
            name: self._field(name, one) for name, one in value.items() if name not in _COSMETIC
        }

    def _field(self, name: str, value: Any) -> Any:
        if name == "exprId" and isinstance(value, dict):
            return self._number(f"exprId {value.get('id')}")
        if name in ("id", "cteId") and isinstance(value, int):
            return self._number(f"cte {value}")
        return self._plain(value)

    def _number(self, key: str) -> str:
        if key not in self._numbers:
            self._numbers[key] = str(self._made)
            self._made += 1
        return self._numbers[key]


def _kind(node: dict[str, Any]) -> str:
    return str(node.get("class", "")).rpartition(".")[2]


def _all_dicts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [one for part in value for one in _all_dicts(part)]
    if isinstance(value, dict):
        return [value, *_all_dicts(list(value.values()))]
    return []
