"""The expressions of the dashboard and of the alert rules are PromQL, with metrics that exist."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

import pytest

from reference.metrics import SERVERS, declarations
from support.promql import Selector, alerts, of_dashboard, selectors
from support.tidy_tree import ROOT

METRICS: Final = ROOT / "deploy" / "metrics"
RULES: Final = METRICS / "alerts.yml"
DASHBOARD: Final = METRICS / "grafana" / "dashboards" / "strandline.json"
EXPRESSIONS: Final = {**alerts(RULES), **of_dashboard(DASHBOARD)[0]}
OF_PROCESSES: Final = {
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_resident_memory_bytes",
}


@functools.cache
def declared() -> dict[str, set[str]]:
    """The labels of each sample that the sources declare."""
    found: dict[str, set[str]] = {"up": set(), **{name: set() for name in OF_PROCESSES}}
    for metric in declarations(SERVERS):
        found[metric.name] = set(metric.labels)
        if metric.kind == "histogram":
            found[f"{metric.name}_bucket"] = {*metric.labels, "le"}
        if metric.kind == "summary":
            found[metric.name] = {*metric.labels, "quantile"}
            found[f"{metric.name}_count"] = set(metric.labels)
    return found


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_an_expression_is_promql_over_declared_metrics_and_labels(title: str) -> None:
    known = declared()
    for each in selectors(EXPRESSIONS[title]):
        assert each.metric in known, each
        assert each.labels <= known[each.metric], each


def test_the_variables_of_the_dashboard_are_labels_of_metrics() -> None:
    known, (_, variables) = declared(), of_dashboard(DASHBOARD)
    assert variables
    for each in variables:
        assert each.labels <= known[each.metric], each


def test_the_reader_finds_labels_of_matchers_and_groupings() -> None:
    assert selectors('sum by (a, instance) (rate(x{b="1"}[$__rate_interval])) / on () y') == {
        Selector("x", frozenset({"a", "b"})),
        Selector("y", frozenset()),
    }
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        selectors("sum(x")


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert taken.isdisjoint(cells), panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
