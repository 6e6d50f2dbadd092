"""`strandline chaos`: what it says of sound runs, of failures and of bad input."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.core.replication.leader import Leader
from strandline_cli.main import run
from strandline_cli.simulation.plans import commit, report
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import RunResult
from strandline_proof.sim.topology.topology import Topology


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
    assert re.search(r"^\d+ of \d+ faults struck", lines[-2])
    assert not (tmp_path / "failures").exists()


@pytest.mark.parametrize(
    ("planned", "struck", "unprompted", "said_so"),
    [
        (4, 4, 0, "4 of 4 faults struck"),
        (4, 3, 0, "3 of 4 faults struck; 1 found nothing to strike before everything healed"),
        (
            4,
            4,
            2,
            "4 of 4 faults struck; 2 waited in vain for an event, and went on without it",
        ),
    ],
)
def test_how_many_faults_have_struck_is_said(
    planned: int, struck: int, unprompted: int, said_so: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kill = Fault(1.0, "kill", {"node": "broker-1", "restart_s": 1.0}, after="isr")
    result = RunResult(
        Plan(1, Topology(), (kill,) * planned),
        struck=Counter({"kill": struck}),
        unprompted=unprompted,
    )
    report(result, None, timeline=False)
    assert said_so in said(capsys)[0]


def test_the_timeline_of_a_sound_seed_is_shown_to_who_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(seed: int, *, commit: str = "", groups: bool = True) -> Plan:
        return Plan(seed, Topology(partitions=1), (), chaos_s=0.5, commit=commit)

    monkeypatch.setattr("strandline_proof.sim.plan.plan.draw_plan", short)
    for arguments in (["--timeline"], ["--no-timeline"]):
        assert run(["chaos", "sim", "--seed", "1", "--save", str(tmp_path), *arguments]) == 0
        lines, _ = said(capsys)
        assert lines[-1].startswith("sound: ")
        shown = any("controller   info    serving" in line for line in lines)
        assert shown == (arguments == ["--timeline"])


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
    assert json.loads(small.read_text())["commit"] == commit(), "it fails on these sources"
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
        ({"seed": -1}, "seed=-1 is not a whole number from 0 on"),
        ({"chaos_s": 0}, "chaos_s=0 is not a number of seconds"),
        ({"commit": "0123456789ab"}, "it is of commit 0123456789ab, this is"),
        ({"faults": [{"at_s": 1, "kind": "meteor", "arguments": {}}]}, "'meteor' is not known"),
        ({"topology": {"brokers": 1}}, "replication_factor=3 needs as many brokers"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(
    failing: Path, changes: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.write_text(json.dumps({**json.loads(failing.read_text()), **changes}))
    for command in ("replay", "shrink"):
        assert run(["chaos", command, str(failing)]) == 2
        _, err = said(capsys)
        assert err.startswith(f"error: {failing} is no plan to run: ")
        assert why in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": 1}'])
def test_a_file_that_is_no_plan_is_refused_in_one_line(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    assert run(["chaos", "replay", str(file)]) == 2
    _, err = said(capsys)
    assert err.startswith(f"error: {file} is no plan to run: ")
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, why in ((tmp_path / "no.json", "No such file"), (tmp_path, "Is a directory")):
        assert run(["chaos", "replay", str(path)]) == 2
        assert f"{path} cannot be read: {why}" in said(capsys)[1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["sim", "--seed", "-1"], "'--seed'"),
        (["sim", "--seeds", "0"], "'--seeds'"),
        (["sim", "--seeds", "2", "--first", "-5"], "'--first'"),
        (["sim", "--seed", "one"], "'--seed'"),
        (["sim", "--seed", "1", "--first", "2"], "--first is where a sweep begins"),
        (["sim", "--crash-points", "1", "--first", "2"], "--first is where a sweep begins"),
        (["sim", "--seed", "1", "--jobs", "7"], "--jobs is for sweeps"),
        (["sim", "--seeds", "2", "--timeline"], "--timeline is of one run"),
        (["sim", "--minutes", "nan"], "--minutes nan is no number"),
        (["sim", "--minutes", "inf"], "--minutes inf is no length of time"),
        (["model", "--profile", "paradise"], "there is no profile 'paradise'"),
        (["model", "--profile", "isr", "--deep"], "not both"),
        (["model", "--max-states", "0"], "'--max-states'"),
        (["mutants", "--only", "unicorn"], "unicorn"),
        (["mutants", "--seeds", "0"], "'--seeds'"),
        (["meteor"], "meteor"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["chaos", *arguments]) == 2
    _, err = said(capsys)
    assert err.startswith("error: ")
    assert why in err
    assert err.count("\n") == 1


def test_a_place_where_nothing_can_be_kept_is_told_before_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert run(["chaos", "sim", "--seeds", "5", "--save", str(file / "failures")]) == 2
    assert f"{file} is a file; name a folder" in said(capsys)[1]


def test_how_much_to_run_has_to_be_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--seed", "1", "--seeds", "2"]):
        assert run(["chaos", "sim", *arguments]) == 2
        assert "give one of --seed N" in said(capsys)[1]
