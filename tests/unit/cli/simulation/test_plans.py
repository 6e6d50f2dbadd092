"""Which sources a plan is of, and what is said where that cannot be vouched for."""

import dataclasses
import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from strandline_cli.errors import UsageMistake
from strandline_cli.simulation import plans as simulation
from strandline_cli.simulation.plans import commit, load_plan
from strandline_proof.sim.plan.plan import draw_plan


def git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of a repository with one commit."""
    file = tmp_path / "source.py"
    file.write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "m")
    return file


def test_sources_are_named_by_their_commit_and_whether_they_still_are_as_it_says(
    source: Path,
) -> None:
    head = git(source.parent, "rev-parse", "--short=12", "HEAD")
    assert commit(source) == head
    source.write_text("2\n")
    assert commit(source) == f"{head}-dirty"
    git(source.parent, "commit", "-qam", "m")
    assert commit(source) == git(source.parent, "rev-parse", "--short=12", "HEAD") != head


def test_sources_that_git_does_not_know_are_named_by_the_version(
    source: Path, tmp_path: Path
) -> None:
    installed = source.parent / "site-packages" / "simulation.py"
    installed.parent.mkdir()
    installed.write_text("")
    assert commit(installed) == f"version {version('strandline')}"
    assert commit(Path("/simulation.py")) == f"version {version('strandline')}"


@pytest.mark.parametrize(
    ("here", "of", "said"),
    [
        ("abc", "", "names no commit"),
        ("abc-dirty", "abc-dirty", "if files have changed again since"),
        ("", "abc", "cannot be told"),
        ("abc", "abc", ""),
    ],
)
def test_a_plan_that_may_mean_another_history_is_run_with_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    here: str,
    of: str,
    said: str,
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(draw_plan(1, commit=of).document()))
    monkeypatch.setattr(simulation, "commit", lambda: here)
    assert load_plan(file, any_commit=False) == draw_plan(1)
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == (said != "")
    load_plan(file, any_commit=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("here", "of", "said"),
    [
        ("abc", "abc-dirty", "is of commit abc-dirty (with changed files), this is commit abc:"),
        ("abc-dirty", "abc", "is of commit abc, this is commit abc-dirty (with changed files):"),
        ("version 1", "version 2", "is of version 2, this is version 1:"),
        ("version 1", "abc", "is of commit abc, this is version 1:"),
    ],
)
def test_a_plan_of_other_sources_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, of: str, said: str
) -> None:
    file = tmp_path / "plan.json"
    plan = dataclasses.replace(draw_plan(1), commit=of)
    file.write_text(json.dumps(plan.document()))
    monkeypatch.setattr(simulation, "commit", lambda: here)
    with pytest.raises(UsageMistake) as refused:
        load_plan(file, any_commit=False)
    assert said in str(refused.value)
    assert "--any-commit" in str(refused.value)
