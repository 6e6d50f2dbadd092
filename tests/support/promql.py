"""PromQL expressions of dashboards and alert rules, taken apart by a parser of PromQL."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import promql_parser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OF_PROMETHEUS: Final = frozenset({"job", "instance"})
"""The labels that Prometheus adds to every sample of a scrape."""
_ALERT: Final = re.compile(r"^      - alert: (\w+)\n        expr: (.+)$", re.MULTILINE)
_LABEL_VALUES: Final = re.compile(r"label_values\((\w+), (\w+)\)")


@dataclass(frozen=True)
class Selector:
    """A metric of an expression, with the labels that the expression expects it to have."""

    metric: str
    labels: frozenset[str]


def selectors(expression: str) -> set[Selector]:
    """The metrics of the expression. Raises ValueError for one that Prometheus would refuse."""
    text = expression.replace("$__rate_interval", "5m")
    return set(_walk(promql_parser.parse(text), frozenset()))


def _walk(node: Any, wanted: frozenset[str]) -> Iterator[Selector]:
    """`wanted`: the labels by which an aggregation around the node groups."""
    if isinstance(node, promql_parser.VectorSelector):
        assert node.name is not None, "every selector names its metric"
        matched = {each.name for each in node.matchers.matchers}
        yield Selector(node.name, (wanted | matched) - OF_PROMETHEUS)
        return
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        wanted = frozenset(node.modifier.labels)
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        child = getattr(node, name, None)
        if child is not None:
            yield from _walk(child, wanted)
    for child in getattr(node, "args", ()):
        yield from _walk(child, wanted)


def alerts(path: Path) -> dict[str, str]:
    """The expressions of the alert rules by name."""
    found = dict(_ALERT.findall(path.read_text()))
    assert len(found) == path.read_text().count("- alert:"), "every alert has an expression"
    return found


def of_dashboard(path: Path) -> tuple[dict[str, str], set[Selector]]:
    """The expressions by the titles of their panels, and the metrics of the variables."""
    document = json.loads(path.read_text())
    expressions = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in document["panels"]
        for target in panel.get("targets", ())
    }
    queries = [each.get("definition", "") for each in document["templating"]["list"]]
    asked = [found.groups() for each in queries if (found := _LABEL_VALUES.fullmatch(each))]
    assert len(asked) == sum(bool(each) for each in queries), queries
    variables = {Selector(metric, frozenset({label}) - OF_PROMETHEUS) for metric, label in asked}
    return expressions, variables
