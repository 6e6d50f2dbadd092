"""`strandline chaos`: what it says of sound runs, of failures and of bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.core.leader import Leader
from strandline_chaos.sim.plan import Fault, Plan
from strandline_chaos.sim.topology import Topology
from strandline_cli.main import run


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan that fails while one rule is taken out of the broker."""
    monkeypatch.setattr(Leader, "below_min_isr", lambda _: False)
    pauses = [Fault(1.0, "pause", {"node": f"broker-{n}", "for_s": 3.5}) for n in (2, 3)]
    jump = Fault(0.5, "clock-jump", {"node": "broker-1", "offset_s": 1.0})
    plan = Plan(1, Topology(partitions=1), (jump, *pauses), chaos_s=5.0)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan.document()))
    return file


def said(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_a_sound_seed_ends_with_what_was_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["chaos", "sim", "--seed", "1", "--save", str(tmp_path / "failures")]) == 0
    lines, _ = said(capsys)
    assert lines[0].startswith("seed 1, Topology(")
    assert lines[-1].startswith("sound: ")
    assert not (tmp_path / "failures").exists()


def test_a_sweep_counts_what_has_struck(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "sim", "--seeds", "2", "--first", "7"]) == 0
    lines, _ = said(capsys)
    assert lines[-1].startswith("2 schedules, ")


def test_a_failure_says_which_invariant_and_how_to_see_it_again(
    failing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["chaos", "replay", str(failing)]) == 1
    lines, _ = said(capsys)
    assert lines[-2].startswith("BROKEN I-9: ")
    assert lines[-1] == f"replay: strandline chaos replay {failing}"
    assert any("broker-2     fault   paused" in line for line in lines)


def test_a_failure_is_shrunk_into_a_file(failing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "shrink", str(failing)]) == 0
    small = failing.with_suffix(".small.json")
    assert [f["kind"] for f in json.loads(small.read_text())["faults"]] == ["pause", "pause"]
    assert run(["chaos", "replay", str(small)]) == 1
    capsys.readouterr()


def test_a_plan_that_does_not_fail_is_not_shrunk(
    failing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    assert run(["chaos", "shrink", str(failing)]) == 1
    assert "does not fail" in said(capsys)[1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"commit": "0123456789ab"}, "it is of commit 0123456789ab, this is"),
        ({"faults": [{"at_s": 1, "kind": "meteor", "arguments": {}}]}, "'meteor' is not known"),
        ({"topology": {"brokers": 1}}, "replication_factor=3 needs as many brokers"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(
    failing: Path, changes: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.write_text(json.dumps({**json.loads(failing.read_text()), **changes}))
    assert run(["chaos", "replay", str(failing)]) == 1
    _, err = said(capsys)
    assert err.startswith(f"error: {failing} is no plan to run: ")
    assert why in err
    assert err.count("\n") == 1


def test_how_much_to_run_has_to_be_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--seed", "1", "--seeds", "2"]):
        assert run(["chaos", "sim", *arguments]) == 2
        assert "give one of --seed N" in said(capsys)[1]
