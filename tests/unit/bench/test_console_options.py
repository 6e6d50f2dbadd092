"""The options of `strandline bench console`."""

import shutil

import pytest

from strandline_bench.console.console import run
from strandline_bench.console.options import parse
from strandline_bench.report import Report


def test_the_measured_cluster_is_that_of_the_bound() -> None:
    options = parse([])
    assert (options.brokers, options.partitions, options.replication_factor) == (3, 300, 3)
    assert options.only == ("pixel", "kill", "cost")
    assert set(options.configuration()) >= {"brokers", "partitions", "records_per_s", "seconds"}


def test_one_part_is_measured_alone() -> None:
    assert parse(["--only", "cost", "--brokers", "1"]).replication_factor == 1
    with pytest.raises(SystemExit):
        parse(["--only", "colour"])


def test_without_a_browser_the_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(SystemExit, match="chromium and chromedriver not found: install them"):
        run(parse([]), Report(as_json=False))
