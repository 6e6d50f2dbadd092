"""What the benchmarks' command lines refuse."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strandline_bench import options
from strandline_bench.group import options as group_options
from strandline_bench.spark import options as spark_options
from strandline_local.contexts import Context, load_contexts

KAFKA = ("--peer-kafka", "127.0.0.1:29092")


@pytest.mark.parametrize(
    ("parse", "argv"),
    [
        (options.parse, ["partitions", *KAFKA]),
        (group_options.parse, [*KAFKA]),
        (spark_options.parse, [*KAFKA]),
    ],
)
def test_a_peer_without_its_library_is_refused_with_what_installs_it(
    parse: Callable[[Sequence[str]], object],
    argv: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SystemExit, match="2"):
        parse(argv)
    assert "127.0.0.1:29092 needs confluent-kafka: pip install" in capsys.readouterr().err


def test_a_named_cluster_is_measured_only_if_the_flag_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("STRANDLINE_CONTEXT", "dev")
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", "e:1")
    contexts = load_contexts()
    contexts.named["dev"] = Context(bootstrap="d:1")
    contexts.current = "dev"
    contexts.save()
    assert options.parse(["produce"]).bootstrap is None
    assert options.parse(["produce", "--context", "dev"]).bootstrap == "d:1"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["produce", *KAFKA], "not of produce"),
        (["partitions", *KAFKA, "--peer-kill", "kill"], "go together"),
        (["partitions", "--peer-kill", "kill", "--peer-restart", "restart"], "of --peer-kafka"),
        (["partitions", "--bootstrap", "127.0.0.1:1"], "takes no --bootstrap"),
        (["produce", "--bootstrap", "127.0.0.1:1", "--context", "dev"], "leave out --bootstrap"),
        (["produce", "--context", "none"], "no context 'none'"),
        (["latency", "--with-controller"], "not of latency"),
        (["consume", "--watched"], "not of consume"),
        (["produce", "--brokers", "2"], "--replication-factor 3 needs as many --brokers"),
    ],
)
def test_what_does_not_go_together_is_refused(
    argv: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options.parse(argv)
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--planning", "--worker-memory"], "not allowed with argument --planning"),
        (["--planning", "--phases"], "--phases does not go with --planning"),
        (["--worker-memory", "--record-size", "100"], "--record-size does not go with --worker-m"),
        (["--planning", "--sink", "noop"], "--sink does not go with --planning"),
        (["--worker-memory", *KAFKA], "--peer-kafka does not go with --worker-memory"),
        ([*KAFKA, "--rounds", "4"], "takes 5 rounds or more"),
        (["--peer-jars", "a.jar"], "--peer-jars is of --peer-kafka"),
        (["--record-size", "7"], "invalid choice"),
        (["--planning", "--brokers", "2"], "--replication-factor 3 needs as many --brokers, not 2"),
        (["--planning", "--partitions", "0"], "0"),
    ],
)
def test_what_is_not_to_be_measured_of_spark_is_refused(
    argv: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        spark_options.parse(argv)
    assert why in capsys.readouterr().err


def test_spark_is_measured_at_both_sizes_and_to_all_sinks_unless_some_are_named() -> None:
    every = spark_options.parse([])
    assert (every.measure, every.partitions, every.rounds) == ("spark", 4, 5)
    assert every.records == {100: 4_000_000, 1024: 1_000_000}
    assert every.sinks == ("noop", "delta", "parquet", "silver", "state")
    some = spark_options.parse(["--record-size", "100", "--sink", "delta", "--records", "7"])
    assert (some.records, some.sinks) == ({100: 7}, ("delta",))
    planning = spark_options.parse(["--planning"])
    assert (planning.measure, planning.partitions, planning.rounds) == ("spark_planning", 1000, 30)
    assert spark_options.parse(["--gold"]).measure == "spark_gold"
    assert spark_options.parse(["--startup"]).measure == "spark_startup"
