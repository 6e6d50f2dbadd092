"""How rounds of `bench spark` are made, judged and told."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from strandline_bench.payloads import compressible
from strandline_bench.processes import Usage
from strandline_bench.report import Report
from strandline_bench.spark import peer as spark_peer
from strandline_bench.spark import spark
from strandline_bench.spark.options import RECORDS, SINKS, parse
from strandline_bench.spark.sides import Taken, shares
from strandline_bench.spark.spark import FLOORS, STATE_SINKS
from strandline_bench.target import Target
from strandline_cli.errors import ClusterError


class Script:
    """A side whose actions take what the script says, and note who was asked."""

    def __init__(self, name: str, seconds: list[float], asked: list[str]) -> None:
        self._name = name
        self._seconds = iter(seconds)
        self._asked = asked

    def frame(self, session: object) -> object:
        raise AssertionError("no session is there")

    def run(self, session: object, sink: str) -> Taken:
        self._asked.append(self._name)
        return Taken(next(self._seconds))


@pytest.fixture
def rig() -> spark._Rig:
    options = parse([])
    return spark._Rig(
        None,  # type: ignore[arg-type] # scripted sides ask nothing of it
        Target("127.0.0.1:1"),
        frozenset(),
        options,
        Report(as_json=True),
    )


def machine(monkeypatch: pytest.MonkeyPatch, others: Iterator[float]) -> None:
    """One second passes for each look at the clock, and others use what the iterator says."""
    clock = {"now": 0.0, "busy": 0.0}

    def now() -> float:
        clock["now"] += 1.0
        return clock["now"]

    def used(brokers: object) -> Usage:
        clock["busy"] += next(others)
        return Usage(0.0, 0.0, 0.0, clock["busy"])

    monkeypatch.setattr(spark, "usage", used)
    monkeypatch.setattr(spark, "time", SimpleNamespace(perf_counter=now))


def test_who_goes_first_alternates(monkeypatch: pytest.MonkeyPatch, rig: spark._Rig) -> None:
    machine(monkeypatch, iter([0.0] * 100))
    asked: list[str] = []
    sides = {name: Script(name, [2.0] * 9, asked) for name in ("ours", "peer")}
    for number in range(3):
        made = spark._round(rig, sides, "noop", 1000, number)  # type: ignore[arg-type]
        assert made.runs["ours"].rows_s == 500.0
    assert asked == ["ours", "peer", "peer", "ours", "ours", "peer"]


def test_a_round_in_which_others_are_busy_is_made_again_three_times_at_most(
    monkeypatch: pytest.MonkeyPatch, rig: spark._Rig
) -> None:
    asked: list[str] = []
    sides = {"ours": Script("ours", [9.0, 2.0, 4.0, 5.0, 6.0, 7.0], asked)}
    machine(monkeypatch, iter([0.0, 0.5, 0.0, 0.25]))
    calm = spark._round(rig, sides, "noop", 1000, 0)  # type: ignore[arg-type]
    assert (calm.repeats, calm.others_cores, calm.runs["ours"].rows_s) == (1, 0.25, 500.0)
    machine(monkeypatch, iter([0.0, 0.4] * 9))
    busy = spark._round(rig, sides, "noop", 1000, 0)  # type: ignore[arg-type]
    assert busy.repeats == 3
    assert busy.others_cores > 0.3
    assert len(asked) == 6


@pytest.mark.parametrize(("ours_s", "missed"), [(1.0, False), (1.3, True)])
def test_a_floor_is_judged_by_the_median_of_the_rounds_ratios(
    capsys: pytest.CaptureFixture[str], ours_s: float, missed: bool
) -> None:
    def made(ours: float, peer: float) -> spark._Round:
        none = Usage(0, 0, 0, 0)
        runs = {
            "ours": spark._Run(100 / ours, Taken(ours), none),
            "peer": spark._Run(100 / peer, Taken(peer), none),
        }
        return spark._Round(runs, 0.1, 0)

    rounds = [made(ours_s, 4.0), made(ours_s, 1.0), made(ours_s, 40.0)]
    assert spark._tell(Report(as_json=True), "noop", 100, rounds) is missed
    told = json.loads(capsys.readouterr().out)
    assert told["ratio"] == round(4.0 / ours_s, 2)
    assert (told["measure"], told["record_size"], told["sink"]) == ("spark", 100, "noop")
    assert (told["ours_rows_s"], told["peer_rows_s"]) == (round(100 / ours_s), 25)
    assert (told["floor"], told["missed"]) == (4.0, missed)


def test_every_sink_and_size_has_a_floor_and_an_aim_above_it() -> None:
    compared = set(SINKS) - set(STATE_SINKS)
    assert set(FLOORS) == {(sink, size) for sink in compared for size in RECORDS}
    assert all(floor < aim for floor, aim in FLOORS.values())


@pytest.mark.parametrize("size", sorted(RECORDS))
def test_half_of_a_record_can_be_packed(size: int) -> None:
    values = list(compressible(2000, size))
    assert {len(value) for value in values} == {size}
    packed = len(zlib.compress(b"".join(values)))
    assert 0.4 < packed / (2000 * size) < 0.65
    assert len(set(values)) == 2000


def test_partitions_share_the_records() -> None:
    assert shares(10, 4) == [2, 3, 2, 3]
    assert sum(shares(1_000_001, 4)) == 1_000_001


def test_jars_that_spark_has_itself_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jars = [
        tmp_path / "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        tmp_path / "kafka-clients-3.9.0.jar",
        tmp_path / "scala-library-2.13.15.jar",
        tmp_path / "spark-tags_2.13-4.0.0.jar",
    ]
    for jar in jars:
        jar.touch()
    cache = tmp_path / "strandline-bench"
    cache.mkdir()
    saved = cache / f"{spark_peer.ARTIFACT}-{spark_peer.VERSION}.classpath"
    saved.write_text(":".join(map(str, jars)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert spark_peer.connector_jars() == f"{jars[0]},{jars[1]}"
    jars[1].unlink()
    with pytest.raises(ClusterError, match=r"names jars that are not there .*kafka-clients-3"):
        spark_peer.connector_jars()


def test_without_maven_the_jars_can_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"install Maven.*or name them with --peer-jars"):
        spark_peer.connector_jars()
