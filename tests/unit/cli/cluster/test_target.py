"""Which cluster a command is about, and what `--config` pairs mean."""

from pathlib import Path

import pytest

from strandline_cli.cluster.target import check_addresses, cluster_directory, find_target
from strandline_local.errors import ClusterError, UsageMistake
from strandline_local.local_cluster import LocalCluster
from strandline_local.overrides import parse_pairs, split_overrides


def test_bootstrap_flag_wins_over_the_environment() -> None:
    environ = {"STRANDLINE_BOOTSTRAP": "b:2", "STRANDLINE_DIR": "/absent"}
    target = find_target(bootstrap="a:1", directory=None, environ=environ)
    assert target.addresses == ["a:1"]
    assert target.local is None


def test_environment_bootstrap_wins_over_the_default_directory() -> None:
    environ = {"STRANDLINE_BOOTSTRAP": "b:2"}
    assert find_target(bootstrap=None, directory=None, environ=environ).addresses == ["b:2"]


def test_directory_flag_wins_over_environment_bootstrap(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=1, port=0)
    environ = {"STRANDLINE_BOOTSTRAP": "b:2"}
    target = find_target(bootstrap=None, directory=tmp_path, environ=environ)
    assert target.bootstrap == cluster.bootstrap
    assert target.local is not None


def test_empty_environment_variables_count_as_absent(tmp_path: Path) -> None:
    environ = {"STRANDLINE_BOOTSTRAP": "", "STRANDLINE_DIR": ""}
    assert cluster_directory(None, environ) == Path(".strandline")
    with pytest.raises(ClusterError, match="no cluster was started"):
        find_target(bootstrap=None, directory=tmp_path, environ=environ)


def test_environment_directory_wins_over_the_default() -> None:
    assert cluster_directory(None, {"STRANDLINE_DIR": "/x"}) == Path("/x")
    assert cluster_directory(Path("/y"), {"STRANDLINE_DIR": "/x"}) == Path("/y")


def test_naming_a_cluster_twice_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match="give one of them"):
        find_target(bootstrap="a:1", directory=tmp_path, environ={})


def test_addresses_lose_their_blanks() -> None:
    assert check_addresses(" a:1 , b:2,") == "a:1,b:2"


@pytest.mark.parametrize(
    "text", ["", " , ", "host", "host:", ":9092", "host:port", "h:0", "h:70000"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageMistake, match="host:port"):
        check_addresses(text)


def test_pairs_split_at_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", " d = e "]) == {"a": "b=c", "d": "e"}


@pytest.mark.parametrize("pair", ["a", "=b", " =b"])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(UsageMistake, match="KEY=VALUE"):
        parse_pairs([pair])


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(UsageMistake, match="given twice"):
        parse_pairs(["a=1", "a=2"])


def test_overrides_go_to_the_processes_that_know_the_key() -> None:
    pairs = ["broker.session.timeout.ms=5000", "log.segment.bytes=1000000", "log.level=debug"]
    controller, brokers = split_overrides(pairs)
    assert controller == {"broker.session.timeout.ms": "5000", "log.level": "debug"}
    assert brokers == {"log.segment.bytes": "1000000", "log.level": "debug"}


def test_keys_that_up_decides_are_refused_with_the_flag_to_use() -> None:
    with pytest.raises(UsageMistake, match="use --dir"):
        split_overrides(["log.dirs=/x"])
