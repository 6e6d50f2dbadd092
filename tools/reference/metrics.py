"""docs/reference/metrics.md, from the metrics that the sources of servers and Spark jobs declare.

A declaration is a call of one of prometheus_client's classes whose first argument is a name that
begins with `strandline_` or `kafka_`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from md_table import table
from reference.words import GENERATED

SERVERS: Final = Path(__file__).resolve().parents[2] / "broker" / "strandline_broker"
JOBS: Final = Path(__file__).resolve().parents[2] / "spark_jobs" / "strandline_spark"
PREFIXES: Final = ("strandline_", "kafka_")
KINDS: Final = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
    "Info": "info",
    "Summary": "summary",
    "SummaryMetricFamily": "summary",
}
SUFFIXES: Final = {"counter": "_total", "info": "_info"}
"""The suffixes that prometheus_client adds to the name of such a metric."""
BOTH_SERVERS: Final = (
    "telemetry.py",
    "hosts/common/loop_idle.py",
    "hosts/common/request_times.py",
)
CONTROLLER: Final = ("hosts/controller/",)
HEAD = f"""\
# Metrics

{GENERATED}
A server serves its metrics over HTTP, in Prometheus' text format, on its `metrics.listeners`. A
counter only grows until the process ends. A histogram has the suffixes `_bucket`, `_count` and
`_sum`. A summary has samples with the label `quantile`, `_count` and `_sum`.

Names that begin with `kafka_` are those that the JMX exporter and Strimzi give to Kafka's metrics,
so dashboards for Kafka work. `metrics.replicas.enable=false` switches off the metrics with the
label `partition`.

These metrics of Kafka have no honest value here, so they do not exist:

- `kafka_network_requestmetrics_responsesendtimems`: asyncio and gRPC do not tell when an answer has
  left the process.
- The queue times of gRPC requests: gRPC queues them outside of our code. `requestqueuetimems` and
  `responsequeuetimems` are of Kafka's protocol alone.
- `localtimems` and `remotetimems` of other requests than Produce and Fetch.
- `kafka_network_requestmetrics_errors_total` with `error="NONE"`, or of gRPC streams other than
  Produce and Fetch, such as the heartbeats of groups.
- `kafka_server_socket_server_metrics_*` of gRPC listeners: gRPC counts its connections itself.
- Purgatory sizes of other operations than Produce and Fetch.

Each process also has the metrics of prometheus_client's process collector, for instance
`process_cpu_seconds_total`, `process_resident_memory_bytes` and `process_open_fds`.
"""
JOBS_HEAD = """\
## Spark jobs

A job serves these at the address of `--metrics-listen` while it runs. Its counters begin at 0 with
the process.

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
    declared = sorted(declarations(SERVERS), key=lambda metric: metric.name)
    servers: dict[str, list[tuple[str, ...]]] = {
        "Both servers": [],
        "Brokers": [],
        "The controller": [],
    }
    for metric in declared:
        servers[_server(metric.file)].append(metric.row())
    jobs = sorted(declarations(JOBS), key=lambda metric: metric.name)
    return "\n".join(
        [
            HEAD,
            *(f"## {title}\n\n{table(COLUMNS, rows)}" for title, rows in servers.items() if rows),
            JOBS_HEAD + table(COLUMNS, [metric.row() for metric in jobs]),
        ]
    )


def _server(file: str) -> str:
    if file in BOTH_SERVERS:
        return "Both servers"
    return "The controller" if file.startswith(CONTROLLER) else "Brokers"


def declarations(folder: Path) -> Iterator[Metric]:
    """The metrics that the sources below the folder declare.

    A name in the metrics' namespace that the reader cannot place is an error.
    """
    for path in sorted(folder.rglob("*.py")):
        text, file = path.read_text("utf-8"), str(path.relative_to(folder))
        if "prometheus_client" not in text and PREFIXES[0] not in text:
            continue
        tree = ast.parse(text)
        aliases, constants = _imported(tree), _constants(tree)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _text(call.args[:1]).startswith(PREFIXES):
                yield _metric(call, aliases, constants, file)


def _metric(
    call: ast.Call, aliases: dict[str, str], constants: dict[str, ast.expr], file: str
) -> Metric:
    kind = KINDS.get(aliases.get(ast.unparse(call.func), ""))
    name, meaning = _text(call.args[:1]), _text(call.args[1:2])
    if kind is None or not meaning:
        raise SystemExit(f"{file}:{call.lineno}: {name} is not declared as metrics.py reads it")
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    labels = [*call.args[2:3], *(given[key] for key in ("labels", "labelnames") if key in given)]
    given_labels = labels[0] if labels else ast.Tuple(elts=[])
    if isinstance(given_labels, ast.Name):
        given_labels = constants[given_labels.id]
    names = ast.literal_eval(given_labels)
    return Metric(name + SUFFIXES.get(kind, ""), kind, tuple(names), meaning, file)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The values of the module's constants by name."""
    return {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value is not None
    }


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
