"""How strandline-spark finds a cluster: flags, then the environment, then a directory."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from strandline_local.cluster_files import new_cluster_file
from strandline_local.contexts import Context, Contexts, contexts_path
from strandline_spark.cluster.find_cluster import (
    add_cluster,
    chosen_cluster,
    chosen_cluster_if_any,
    find_bootstrap,
)
from strandline_spark.errors import OptionError


def test_the_flag_wins_over_the_environment_and_the_environment_over_directories() -> None:
    environ = {"STRANDLINE_BOOTSTRAP": "b:2", "STRANDLINE_DIR": "/nowhere"}
    assert find_bootstrap("a:1", None, environ) == "a:1"
    assert find_bootstrap(None, None, environ) == "b:2"


def test_a_directory_made_by_the_command_line_is_found(tmp_path: Path) -> None:
    made = new_cluster_file(brokers=3, port=9092)
    (tmp_path / "cluster.json").write_text(made.to_json())
    assert find_bootstrap(None, str(tmp_path), {}) == made.bootstrap
    assert find_bootstrap(None, None, {"STRANDLINE_DIR": str(tmp_path)}) == made.bootstrap


def flags(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_cluster(parser)
    return parser.parse_args(words)


def test_contexts_are_those_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    contexts = Contexts(contexts_path({"XDG_CONFIG_HOME": str(tmp_path)}))
    contexts.named = {"prod": Context(bootstrap="p:1"), "dev": Context(directory=str(tmp_path))}
    contexts.save()
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "STRANDLINE_BOOTSTRAP": "b:2"}
    assert chosen_cluster(flags("--context", "prod"), environ) == "p:1"
    assert chosen_cluster(flags(), {**environ, "STRANDLINE_CONTEXT": "prod"}) == "p:1"
    made = new_cluster_file(brokers=3, port=9092)
    (tmp_path / "cluster.json").write_text(made.to_json())
    assert chosen_cluster(flags("--context", "dev"), environ) == made.bootstrap
    with pytest.raises(OptionError, match="leave out --bootstrap and --dir"):
        chosen_cluster(flags("--context", "prod", "--bootstrap", "a:1"), environ)
    with pytest.raises(OptionError, match=r"no context 'none' .*strandline context add"):
        chosen_cluster(flags("--context", "none"), environ)
    del environ["STRANDLINE_BOOTSTRAP"]
    assert chosen_cluster_if_any(flags(), environ) is None
    contexts.current = "prod"
    contexts.save()
    assert chosen_cluster_if_any(flags(), environ) == "p:1"


def test_what_names_no_cluster_is_refused_with_the_ways_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="STRANDLINE_BOOTSTRAP"):
        find_bootstrap(None, str(tmp_path), {})
    with pytest.raises(OptionError, match="both name a cluster"):
        find_bootstrap("a:1", str(tmp_path), {})
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(OptionError, match="does not say where"):
        find_bootstrap(None, str(tmp_path), {})
