"""The reference documents say what the code declares, whatever form the declaration has."""

import re
from inspect import signature
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import strandline
from md_table import table
from reference.client_api import client_api
from reference.client_names import client_names
from reference.client_options import MEANINGS, options_table
from reference.commands import command_line
from reference.errors import errors
from reference.metrics import SERVERS, Metric, declarations
from reference.words import first_sentence
from strandline import errors as client_errors
from strandline import sync
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.errors import ERRORS
from strandline_runtime.real import RealClock

DECLARED = """\
from prometheus_client import Counter as Total
from prometheus_client import Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

Total("strandline_a", "A.", ["x", "y"], registry=r)
Gauge("strandline_b", "B" " and more.", labelnames=("z",))
Histogram("strandline_c", "C.")
GaugeMetricFamily("strandline_d", "D.", labels=["state"])
LABELS: Final = ("topic",)
GaugeMetricFamily("kafka_e", "E.", labels=LABELS)
"""


def test_a_metric_has_the_name_of_a_scrape_its_labels_and_its_file(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(DECLARED)
    assert list(declarations(tmp_path)) == [
        Metric("strandline_a_total", "counter", ("x", "y"), "A.", "one.py"),
        Metric("strandline_b", "gauge", ("z",), "B and more.", "one.py"),
        Metric("strandline_c", "histogram", (), "C.", "one.py"),
        Metric("strandline_d", "gauge", ("state",), "D.", "one.py"),
        Metric("kafka_e", "gauge", ("topic",), "E.", "one.py"),
    ]


@pytest.mark.parametrize("call", ['made("strandline_a", "A.")', 'Counter("strandline_a", words)'])
def test_a_metric_that_the_reader_cannot_place_is_refused(call: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(f"from prometheus_client import Counter\n{call}\n")
    with pytest.raises(SystemExit, match=r"one\.py:2: strandline_a"):
        list(declarations(tmp_path))


def test_the_metrics_of_both_servers_are_those_of_a_scrape() -> None:
    registry = CollectorRegistry()
    ServerMetrics(registry, RealClock())
    scraped = {sample.name for family in registry.collect() for sample in family.samples}
    declared = {m.name for m in declarations(SERVERS) if m.file == "telemetry.py"}
    # Labelled metrics have no sample before the first call, and the last one needs a real stderr.
    assert {name for name in scraped if not name.endswith("_created")} == declared - {
        "strandline_requests_total",
        "strandline_request_failures_total",
        "strandline_log_lines_dropped",
    }


def test_every_error_is_listed_with_its_code() -> None:
    page = errors()
    for code, kind in ERRORS.items():
        assert f"| {code} | {kind.__name__} | {'yes' if kind.retriable else 'no'} |" in page
    assert "| BufferFull | `DeliveryError`, `TimeoutError` | yes |" in page
    assert client_errors.BufferFull.retriable


@pytest.mark.parametrize(
    "shown",
    [
        "### strandline topic create\n\n    strandline topic create TOPIC",
        "### strandline bench log\n",
        "### strandline-spark ingest bronze\n",
        "    python -m strandline_broker broker|controller\n",
        "| `--acks 0\\|1\\|all` | `all` |",
        "| `--topics TOPICS` | must be given |",
        "| `--spark`, `--no-spark` |",
    ],
)
def test_the_command_line_has_every_program_its_arguments_and_options(shown: str) -> None:
    assert shown in command_line()


def test_no_default_is_this_machines() -> None:
    assert not re.search(r"`/(?:tmp|usr|opt)|python3?`", command_line())


def test_the_client_api_has_signatures_fields_and_members() -> None:
    page = client_api()
    assert "| `async send_and_wait(topic: str" in page
    assert "    max_poll_interval_ms: int = 300000,\n" in page
    assert "TopicPartition(topic: str, partition: int)" in page
    assert "| `PREFERRED = " in page
    for name in sync.__all__:
        assert f"### strandline.sync.{name}\n" in page
    blocking = page.partition("### strandline.sync.Admin")[2].partition("\n### ")[0]
    for name in (n for n in dir(sync.Admin) if not n.startswith("_")):
        assert f"| `{name}(" in blocking, name


@pytest.mark.parametrize("client", ["Admin", "Consumer", "Producer"])
def test_every_option_of_a_client_has_a_meaning(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: type = getattr(strandline, client)
    section = client_api().partition(f"### strandline.{client}\n")[2].partition("\n### ")[0]
    for name in signature(kind).parameters.keys() - {"topics"}:
        assert re.search(rf"^\| `{name}` \| \S", section, re.MULTILINE), name
    monkeypatch.setitem(MEANINGS, client, MEANINGS[client] | {"lingerms": "Nothing."})
    with pytest.raises(SystemExit, match=rf"and {client} differ in \['lingerms'\]"):
        options_table(client, kind)


def test_a_remedy_that_begins_with_an_option_keeps_its_name() -> None:
    page = client_names()
    assert "| `batch_num_messages` | batch_size bounds a batch, in bytes |" in page
    assert "| `stats_cb` | Call metrics() |" in page


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("One thing. Another.", "One thing."),
        ("Lines of\n    one sentence.\n\n    More.", "Lines of one sentence."),
        ("A size, e.g. 1.5 MB, or so. More.", "A size, e.g. 1.5 MB, or so."),
        ("No end", "No end"),
        (None, ""),
    ],
)
def test_the_first_sentence_ends_where_it_ends(docstring: str | None, sentence: str) -> None:
    assert first_sentence(docstring) == sentence


def test_a_pipe_in_a_cell_does_not_end_it() -> None:
    assert table(["a"], [["x | y"]]) == "| a |\n| --- |\n| x \\| y |\n"
