"""Benchmarks say what they measured in figures that scripts can rely on."""

import json

import pytest

from strandline_bench.options import parse
from strandline_bench.report import Report, percentile, rounded


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.99, 99), (0.001, 1), (1.0, 100), (0.505, 51)]
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("p50_ms", 1.23456, 1.23),
        ("failover_ms_max", 61.23456, 61.23),
        ("first_ack_s", 1.23456, 1.235),
        ("rss_mb", 61.26, 61.3),
        ("floor_mb_s", 123.456, 123.5),
        ("records_s", 123456.7, 123457),
        ("floor_share", 0.43219, 0.432),
        ("lost", 0, 0),
    ],
)
def test_a_figure_has_the_digits_that_its_unit_deserves(
    name: str, value: float, expected: float
) -> None:
    assert rounded(name, value) == expected


def test_json_is_one_object_a_line_and_begins_with_the_environment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = parse(["latency", "--json", "--records", "10"])
    report = Report(as_json=options.as_json)
    report.environment(options)
    report.measured("latency", {"p50_ms": 1.234})
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["measure"] == "environment"
    assert {"cores", "commit", "acks", "replication_factor", "records"} <= set(first)
    assert second == {"measure": "latency", "p50_ms": 1.23}


def test_the_number_of_records_follows_their_size() -> None:
    assert parse(["produce"]).records == 262_144
    assert parse(["produce", "--record-size", "100"]).records == 2_000_000
    assert parse(["produce", "--records", "1_000"]).records == 1000
    assert parse(["latency"]).records == 5000


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["startup", "--bootstrap", "127.0.0.1:9092"], "takes no --bootstrap"),
        (["testing", "--bootstrap", "127.0.0.1:9092"], "takes no --bootstrap"),
        (["produce", "--brokers", "1"], "needs as many --brokers"),
        (["produce", "--records", "0"], "below 1"),
        (["speed"], "invalid choice"),
        (["produce", "--acks", "2"], "invalid choice"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_reason(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(argv)
    assert refused.value.code == 2
    assert complaint in capsys.readouterr().err
