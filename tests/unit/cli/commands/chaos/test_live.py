"""Mistakes on the command line of `chaos live` get one sentence, before anything is started."""

from pathlib import Path

import pytest

from strandline_cli.errors import EXIT_OK, EXIT_USAGE
from strandline_cli.main import run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--faults unplug", "there is no fault 'unplug': give some of kill, pause, partition"),
        ("--faults kill,", "there is no fault ''"),
        ("--victims 4", "there is no victim '4': give some of 1, 2, 3, controller, leader"),
        ("--victims controller --faults power", "power strikes brokers only"),
        ("--processes --containers", "exclude each other"),
        ("--containers --brokers 3", "compose's file has its brokers"),
        ("--containers", "there is no docker-compose.yml here"),
        ("--minutes 0", "--minutes"),
        ("--minutes nan", "--minutes nan is no number"),
        ("--minutes 1e9", "--minutes"),
        ("--seed -1", "--seed"),
        ("--fault-seconds 0", "--fault-seconds"),
    ],
)
def test_a_mistake_is_said_in_one_line(
    options: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["chaos", "live", "--plan", *options.split()]) == EXIT_USAGE
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_a_plan_is_shown_with_what_the_machine_cannot_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("strandline_cli.nemesis.network.has_sys_admin", lambda: False)
    monkeypatch.setattr("strandline_cli.nemesis.disks.has_sys_admin", lambda: False)
    assert run(["chaos", "live", "--plan", "--seed", "7", "--minutes", "1"]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "THIS MACHINE CANNOT:"
    assert [line.split()[0] for line in lines[1:6]] == [
        *("partition", "delay", "disk-full", "disk-slow", "power")
    ]
    assert all("only root" in line for line in lines[1:6])
    assert lines[6] == "plan of seed 7, 60 s, kill, pause, clock:"
    again = run(["chaos", "live", "--plan", "--seed", "7", "--minutes", "1"])
    assert again == EXIT_OK
    assert capsys.readouterr().out.splitlines() == lines


def test_nothing_to_inject_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("strandline_cli.nemesis.disks.has_sys_admin", lambda: False)
    assert run(["chaos", "live", "--plan", "--faults", "power"]) == EXIT_USAGE
    assert "none of these faults can be made here: power: only root" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for options in (["--page", "no/page.html"], ["--history", str(tmp_path)]):
        assert run(["chaos", "live", "--seed", "1", *options]) == EXIT_USAGE
        told = capsys.readouterr()
        assert told.err.startswith(f"error: cannot write {options[1]}: ")
        assert told.out == ""
    assert list(tmp_path.iterdir()) == [], "the page of a run that did not begin"
