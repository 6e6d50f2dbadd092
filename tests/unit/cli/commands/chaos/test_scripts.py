"""The scripts of chaos/: the run of `chaos live` that each begins. The command is a fake."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from strandline_chaos.faults import plan
from strandline_cli.errors import EXIT_OK
from strandline_cli.main import run
from support.tidy_tree import ROOT

SCRIPTS = {
    "kill_leader.sh": ("kill", ["--victims", "leader"]),
    "kill_random.sh": ("kill", []),
    "partition.sh": ("partition", []),
    "pause.sh": ("pause", []),
    "fill_disk.sh": ("disk-full", []),
}
COMMON = ["--rounds", "--fault-seconds", "--rest-seconds", "--minutes"]


def words_of(script: str, folder: Path, **variables: str) -> list[str]:
    """The words of the command that the script begins, in the repository's folder."""
    fake = folder / "strandline"
    fake.write_text('#!/bin/sh\npwd > "$SAID"; for word; do echo "$word" >> "$SAID"; done\n')
    fake.chmod(0o755)
    said = folder / "said"
    environ = {"PATH": os.environ["PATH"], "STRANDLINE": str(fake), "SAID": str(said), **variables}
    subprocess.run([str(ROOT / "chaos" / script)], env=environ, cwd=folder, check=True, timeout=60)
    where, *words = said.read_text().splitlines()
    assert Path(where) == ROOT, "where docker-compose.yml is"
    return words


def test_each_script_is_known_here() -> None:
    found = {path.name for path in (ROOT / "chaos").glob("*.sh")} - {"common.sh"}
    assert found == set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_begins_a_run_with_its_fault(script: str, tmp_path: Path) -> None:
    kind, more = SCRIPTS[script]
    words = words_of(script, tmp_path)
    assert kind in plan.KINDS
    assert words[:5] == ["chaos", "live", "--containers", "--faults", kind]
    assert words[5 : 5 + len(more)] == more
    rest = words[5 + len(more) :]
    assert rest[::2] == COMMON
    assert rest[1::2] == ["5", "4", "6", "1"], "five rounds of ten seconds, and ten to settle"


@pytest.mark.parametrize("script", SCRIPTS)
def test_its_variables_are_options_of_the_run(script: str, tmp_path: Path) -> None:
    words = words_of(
        script,
        tmp_path,
        ROUNDS="2",
        SECONDS_DOWN="1",
        SECONDS_UP="3",
        SEED="7",
        HISTORY="/a/history",
        PAGE="/a/page.html",
    )
    told = dict(zip(words[-14::2], words[-13::2], strict=True))
    assert told == {
        "--rounds": "2",
        "--fault-seconds": "1",
        "--rest-seconds": "3",
        "--minutes": "0.3",
        "--seed": "7",
        "--history": "/a/history",
        "--page": "/a/page.html",
    }


def test_the_command_has_each_of_these_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["chaos", "live", "--help"]) == EXIT_OK
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    words = words_of("kill_leader.sh", tmp_path, SEED="7", HISTORY="h", PAGE="p")
    assert {word for word in words if word.startswith("--")} <= known
