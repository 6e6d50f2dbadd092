"""Contexts: names for clusters, chosen by a flag, a variable, or `context use`."""

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_cli.cluster.target import cluster_directory, find_target
from strandline_cli.errors import CliError, ClusterError
from strandline_cli.main import run
from strandline_local.contexts import choose, load_contexts, parse_contexts


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of settings, and an empty working directory."""
    for name in ("STRANDLINE_BOOTSTRAP", "STRANDLINE_DIR", "STRANDLINE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def context(*words: str) -> int:
    return run(["context", *words])


def addressed(**environ: str) -> str:
    """The addresses that a command without flags uses."""
    import os

    return find_target(bootstrap=None, directory=None, environ={**os.environ, **environ}).bootstrap


def test_a_context_is_used_by_name_by_variable_and_by_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert context("add", "prod", "--bootstrap", "p:1, q:2") == 0
    assert context("add", "test", "--bootstrap", "t:1") == 0
    assert "use it with --context test" in capsys.readouterr().err
    assert addressed(STRANDLINE_CONTEXT="prod") == "p:1,q:2"
    with pytest.raises(ClusterError, match="no cluster was started"):
        addressed()
    assert context("use", "test") == 0
    assert addressed() == "t:1"
    assert context("use", "--none") == 0
    assert load_contexts().current is None


def test_what_is_nearer_comes_before_the_context_in_use(home: Path) -> None:
    assert context("add", "prod", "--bootstrap", "p:1", "--use") == 0
    assert choose(None, None).bootstrap == "p:1"
    environ = {"XDG_CONFIG_HOME": str(home / "settings"), "STRANDLINE_BOOTSTRAP": "e:1"}
    assert choose(None, None, environ).bootstrap == "e:1"
    assert choose("f:1", None, environ).bootstrap == "f:1"
    named = {**environ, "STRANDLINE_CONTEXT": "prod"}
    assert choose(None, None, named).bootstrap == "p:1"
    (home / ".strandline").mkdir()
    assert choose(None, None).directory == Path(".strandline"), "a cluster here is meant"


def test_commands_for_local_processes_take_a_context_that_names_a_directory(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = home / "elsewhere"
    assert context("add", "dev", "--dir", str(folder), "--use") == 0
    assert context("add", "prod", "--bootstrap", "p:1") == 0
    settings = {"XDG_CONFIG_HOME": str(home / "settings"), "STRANDLINE_BOOTSTRAP": "e:1"}
    assert cluster_directory(None, settings) == folder
    assert cluster_directory(None, settings, may_be_new=True) == Path(".strandline")
    named = {**settings, "STRANDLINE_CONTEXT": "dev"}
    assert cluster_directory(None, named, may_be_new=True) == folder
    for words in (["stop", "2"], ["start", "2"], ["restart", "2"], ["kill", "2"], ["down"]):
        assert run([*words, "--context", "dev"]) == 1
        assert f"no cluster was started in {folder}" in capsys.readouterr().err
    for words in (["stop", "2"], ["up"]):
        assert run([*words, "--context", "prod"]) == 2
        said = capsys.readouterr().err
        assert "context prod names addresses, and this command works in the directory" in said
        assert run([*words, "--context", "dev", "--dir", "x"]) == 2
        assert "leave out --dir, or --context" in capsys.readouterr().err
    assert context("use", "prod") == 0
    assert cluster_directory(None, settings) == Path(".strandline"), "prod has no directory"


def test_use_says_that_a_cluster_in_this_folder_comes_first(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".strandline").mkdir()
    assert context("add", "prod", "--bootstrap", "p:1") == 0
    assert context("use", "prod") == 0
    assert "in this folder ./.strandline comes first" in capsys.readouterr().err


def test_every_command_with_bootstrap_takes_a_context(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def probed(address: str, *_: Any, **__: Any) -> Any:
        asked.append(address)
        raise CliError("no answer")

    monkeypatch.setattr("strandline_local.probe.ask_metadata", probed)
    assert context("add", "prod", "--bootstrap", "p:1") == 0
    assert run(["offsets", "orders", "--context", "prod"]) == 1
    assert asked == ["p:1"]
    capsys.readouterr()
    assert run(["offsets", "orders", "--context", "prod", "--bootstrap", "q:1"]) == 2
    assert "--context names a cluster" in capsys.readouterr().err
    assert run(["offsets", "orders", "--context", "prdo"]) == 2
    assert "no context 'prdo' (prod)" in capsys.readouterr().err
    assert choose(None, None).directory == Path(".strandline"), "the flag ends with its command"


def test_a_directory_is_kept_whole(home: Path) -> None:
    assert context("add", "local", "--dir", "cluster") == 0
    assert load_contexts().named["local"].directory == str(home / "cluster")


def test_the_list_marks_the_context_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert context("list") == 0
    assert "there is no context" in capsys.readouterr().err
    assert context("add", "prod", "--bootstrap", "p:1", "--use") == 0
    assert context("add", "local", "--dir", "/c") == 0
    capsys.readouterr()
    assert context("list") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [["local", "/c"], ["*", "prod", "p:1"]]
    assert context("list", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "name": "prod", "bootstrap": "p:1", "dir": None, "in_use": True
    }  # fmt: skip
    assert context("show") == 0
    assert capsys.readouterr().out == "p:1 (by context prod, which is in use)\n"


def test_a_context_is_replaced_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    assert context("add", "prod", "--bootstrap", "p:1", "--use") == 0
    assert context("add", "prod", "--bootstrap", "p:2") == 0
    assert "replaced (--bootstrap p:1 before)" in capsys.readouterr().out
    assert context("remove", "prod") == 0
    assert "no context is in use now" in capsys.readouterr().err
    assert load_contexts().named == {}
    assert context("remove", "prod") == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "a b", "--bootstrap", "p:1"), "'a b' is no name of a context"),
        (("add", "-x", "--bootstrap", "p:1"), "-x"),
        (("add", "prod"), "say where the cluster is"),
        (("add", "prod", "--bootstrap", "p:1", "--dir", "d"), "say where the cluster is"),
        (("add", "prod", "--bootstrap", "p"), "'p' is not an address"),
        (("use", "prod"), "no context 'prod' (there is none yet)"),
        (("use",), "name a context"),
    ],
)
def test_mistakes_change_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert context(*words) == 2
    assert why in capsys.readouterr().err
    assert load_contexts().named == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "[]", "{}", '{"version": 2, "contexts": {}}',
        '{"version": 1, "contexts": {"a": {}}}',
        '{"version": 1, "contexts": {"a": {"bootstrap": "p:1", "dir": "d"}}}',
        '{"version": 1, "contexts": {"a": {"bootstrap": 7}}}',
        '{"version": 1, "current": "b", "contexts": {"a": {"bootstrap": "p:1"}}}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_the_remedy(text: str) -> None:
    with pytest.raises(ClusterError, match=r"^/f: .*; correct it, or remove it"):
        parse_contexts(text, Path("/f"))


def test_a_file_that_cannot_be_written_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "settings").write_text("no folder")
    assert context("add", "prod", "--bootstrap", "p:1") == 1
    assert "contexts.json cannot be written" in capsys.readouterr().err
