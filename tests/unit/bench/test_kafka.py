"""`bench kafka`: its options, a part's figures, and what bounds them."""

import os
from pathlib import Path

import pytest

from strandline_bench.kafka.kafka import Measured, _bound
from strandline_bench.kafka.options import PARTS, parse
from strandline_bench.processes import Usage

CORES = len(os.sched_getaffinity(0))


def test_without_options_every_part_is_measured_on_both_sides(tmp_path: Path) -> None:
    script = tmp_path / "kafka.py"
    script.touch()
    found = parse(["--kafka-script", str(script)])
    assert found.only == tuple(PARTS)
    assert (found.rounds, found.kafka_script, found.as_json) == (5, script, False)


def test_parts_come_in_their_own_order() -> None:
    found = parse(["--without-kafka", "--only", "latency", "--only", "consume"])
    assert found.only == ("consume", "latency")
    assert found.kafka_script is None


def test_a_missing_script_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--kafka-script", str(tmp_path / "none.py")])
    assert "give --without-kafka" in capsys.readouterr().err


def test_a_part_has_the_medians_of_its_rounds() -> None:
    found = Measured()
    found.rounds["mb_s"] += [10.0, 30.0, 20.0]
    found.bounds += ["a", "b", "b"]
    assert found.summary() == {"mb_s": 20.0, "bound_by": "b"}


def test_an_idle_core_means_that_a_wait_bounds_the_figure() -> None:
    assert "a wait" in _bound(Usage(jvm=0, python=0.5, brokers=0.1, busy=0.7 * CORES), took_s=1)


def test_a_busy_machine_names_who_took_most() -> None:
    used = Usage(jvm=0, python=0.3, brokers=CORES - 0.4, busy=CORES)
    assert _bound(used, took_s=1) == "the processor, most of it in the brokers"
