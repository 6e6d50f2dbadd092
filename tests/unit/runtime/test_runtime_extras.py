"""A missing extra is named with the command that installs it."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from strandline_cli import main
from strandline_runtime import extras

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in missing else name)


def test_nothing_is_said_when_everything_is_there() -> None:
    assert extras.what_is_missing("broker", "spark") is None


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "typer", "rich", "numpy")
    assert extras.what_is_missing("broker") == (
        "typer, rich are not installed: pip install 'strandline[broker]'"
    )
    assert extras.what_is_missing("spark") == (
        "numpy is not installed: pip install 'strandline[spark]'"
    )


@pytest.mark.parametrize("argv", [["up"], ["--help"], ["bench"]])
def test_the_command_says_so_before_anything_else(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _without(monkeypatch, "typer")
    assert main.run(argv) == 1
    said = capsys.readouterr().err
    assert said == "error: typer is not installed: pip install 'strandline[broker]'\n"


@pytest.mark.parametrize(
    ("demo", "missing"),
    [
        (["flights"], "deltalake"),
        (["flights"], "pyspark"),
        (["flights", "--no-spark"], "numpy"),
        (["kip101"], "pyarrow"),
    ],
)
def test_a_demo_says_so_before_its_cluster_runs(
    demo: list[str],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _without(monkeypatch, missing)
    assert main.run(["demo", *demo]) == 1
    said = capsys.readouterr().err
    assert said == f"error: {missing} is not installed: pip install 'strandline[spark]'\n"


def test_a_demo_without_spark_asks_for_nothing_of_sparks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _without(monkeypatch, "pyspark", "deltalake", "fastavro")
    assert main.run(["demo", "flights", "--no-spark", "--input", "/nowhere"]) == 1
    assert "/nowhere is not a file" in capsys.readouterr().err


def test_the_spark_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from strandline_spark.commands.main import main as spark

    _without(monkeypatch, "pyspark")
    with pytest.raises(SystemExit) as ended:
        spark(["verify", "tables/bronze", "orders"])
    assert ended.value.code == 1
    assert "pip install 'strandline[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize("extra", sorted(extras.MODULES))
def test_the_modules_are_those_of_the_extra(extra: str) -> None:
    wanted = {_name(each) for each in PROJECT["optional-dependencies"][extra]}
    owners = packages_distributions()
    found = {owner.lower().replace("_", "-") for m in extras.MODULES[extra] for owner in owners[m]}
    assert found == wanted


def test_every_dependency_has_bounds() -> None:
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for each in (each for listed in lists for each in listed):
        assert re.fullmatch(r"[a-z0-9-]+(\[[a-z0-9]+\])?>=[0-9.]+,<[0-9.]+", each), each


def _name(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0]
