"""docs/reference/metrics.md, from the metrics that the servers' sources declare.

A declaration is a call of one of prometheus_client's classes whose first argument is a name that
begins with `strandline_`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from md_table import table
from reference.words import GENERATED

SOURCES: Final = Path(__file__).resolve().parents[2] / "broker" / "strandline_broker"
PREFIX: Final = "strandline_"
KINDS: Final = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "Info": "info",
    "Summary": "summary",
}
SUFFIXES: Final = {"counter": "_total", "info": "_info"}
"""The suffixes that prometheus_client adds to the name of such a metric."""
BOTH_SERVERS: Final = "telemetry.py"
HEAD = f"""\
# Metrics

{GENERATED}
A server serves its metrics over HTTP, in Prometheus' text format, on its `metrics.listeners`. A
counter only grows until the process ends. A histogram has the suffixes `_bucket`, `_count` and
`_sum`.
"""
COLUMNS = ("metric", "kind", "labels", "meaning", "declared in")


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric, under the name that a scrape shows."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    file: str

    def row(self) -> tuple[str, ...]:
        labels = ", ".join(f"`{label}`" for label in self.labels)
        return f"`{self.name}`", self.kind, labels, self.meaning, f"`{self.file}`"


def metrics() -> str:
    declared = sorted(declarations(SOURCES), key=lambda metric: metric.name)
    both = [metric.row() for metric in declared if metric.file == BOTH_SERVERS]
    brokers = [metric.row() for metric in declared if metric.file != BOTH_SERVERS]
    return "\n".join(
        [
            HEAD,
            f"## Both servers\n\n{table(COLUMNS, both)}",
            f"## Brokers\n\n{table(COLUMNS, brokers)}",
        ]
    )


def declarations(folder: Path) -> Iterator[Metric]:
    """The metrics that the sources below the folder declare.

    A name in the metrics' namespace that the reader cannot place is an error.
    """
    for path in sorted(folder.rglob("*.py")):
        tree, file = ast.parse(path.read_text("utf-8")), str(path.relative_to(folder))
        if PREFIX not in path.read_text("utf-8"):
            continue
        aliases = _imported(tree)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _text(call.args[:1]).startswith(PREFIX):
                yield _metric(call, aliases, file)


def _metric(call: ast.Call, aliases: dict[str, str], file: str) -> Metric:
    kind = KINDS.get(aliases.get(ast.unparse(call.func), ""))
    name, meaning = _text(call.args[:1]), _text(call.args[1:2])
    if kind is None or not meaning:
        raise SystemExit(f"{file}:{call.lineno}: {name} is not declared as metrics.py reads it")
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    labels = [*call.args[2:3], *(given[key] for key in ("labels", "labelnames") if key in given)]
    names = ast.literal_eval(labels[0]) if labels else ()
    return Metric(name + SUFFIXES.get(kind, ""), kind, tuple(names), meaning, file)


def _imported(tree: ast.Module) -> dict[str, str]:
    """The names that the module gives to what it imports, with the names at the origin."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
        for alias in node.names
    }


def _text(arguments: list[ast.expr]) -> str:
    """The value of the one argument, if it is a literal string."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.Constant):
        value = arguments[0].value
        return value if isinstance(value, str) else ""
    return ""
