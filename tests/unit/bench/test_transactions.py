"""`bench transactions`: its options, and the ratios of its figures."""

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from strandline_bench import loop
from strandline_bench.kafka.kafka import Rounds
from strandline_bench.transactions import load
from strandline_bench.transactions.options import ALONE, PARTS, parse
from strandline_bench.transactions.transactions import ratios


def rounds(**figures: list[float]) -> Rounds:
    return defaultdict(list, figures)


def test_without_options_every_part_is_measured_on_both_sides(tmp_path: Path) -> None:
    script = tmp_path / "kafka.py"
    script.touch()
    found = parse(["--kafka-script", str(script)])
    assert found.only == tuple(PARTS)
    assert (found.producers, found.partitions, found.kafka_script) == (1, 10, script)


def test_producers_and_partitions_are_numbers_above_zero(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = parse(["--without-kafka", "--producers", "4", "--partitions", "2", "--format", "json"])
    assert (found.producers, found.partitions, found.as_json) == (4, 2, True)
    with pytest.raises(SystemExit):
        parse(["--without-kafka", "--producers", "0"])
    assert "--producers" in capsys.readouterr().err


def test_a_missing_script_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--kafka-script", str(tmp_path / "none.py")])
    assert "give --without-kafka" in capsys.readouterr().err


def test_the_load_alone_needs_no_cluster(tmp_path: Path) -> None:
    found = parse(["--only", "load", "--kafka-script", str(tmp_path / "none.py")])
    assert found.only == (ALONE,)
    assert found.configuration() == {"only": "load", "rounds": 5}


def test_a_log_is_loaded_by_the_code_of_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "IDS", 300)
    monkeypatch.setattr(loop, "run", asyncio.run)
    load.write(tmp_path)
    measured = load.load(tmp_path)
    assert measured.keys() == {"load_s", "cpu_s", "pause_ms", "pause_cpu_ms"}
    assert measured["load_s"] > 0


def test_a_ratio_is_of_medians_and_of_figures_that_both_have() -> None:
    ours = rounds(ms_p50=[4.0, 6.0, 90.0], ms_p99=[9.0], ours_only=[1.0])
    assert ratios(ours, rounds(ms_p50=[12.0], ms_p99=[0.0])) == {"ms_p50_ratio": 0.5}
