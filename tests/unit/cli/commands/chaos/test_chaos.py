"""The simulator stays in the repository: what an installed strandline says who asks for it."""

import sys
import tomllib

import pytest

from strandline_cli.errors import EXIT_FAILED, EXIT_OK
from strandline_cli.main import run
from support.tidy_tree import ROOT


@pytest.mark.parametrize("command", ["sim --seed 1", "replay x", "shrink x", "mutants", "model"])
def test_where_the_simulator_is_missing_it_is_said_where_it_is(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "strandline_proof", None)
    assert run(["chaos", *command.split()]) == EXIT_FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "strandline_proof is missing" in said.err
    assert "in a checkout" in said.err


def test_a_live_run_needs_no_simulator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "strandline_proof", None)
    assert run(["--help"]) == EXIT_OK
    assert "\n  chaos " in capsys.readouterr().out
    assert run(["chaos", "live", "--plan", "--faults", "kill", "--seed", "1"]) == EXIT_OK
    assert "plan of seed 1" in capsys.readouterr().out


def test_no_wheel_has_the_simulator() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert "proof/strandline_proof" not in built["targets"]["wheel"]["packages"]
    assert "proof" in built["dev-mode-dirs"], "a checkout has it"
