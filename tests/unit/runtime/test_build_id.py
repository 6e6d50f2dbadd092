"""The name of a build is what git says of a checkout, and what the build has written elsewhere."""

from __future__ import annotations

import subprocess
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import pytest

from strandline_runtime import build_id as module
from strandline_runtime.build_id import (
    FILE,
    build_id,
    checked_out_commit,
    commit_of,
    version_of,
)

if TYPE_CHECKING:
    from pathlib import Path

WHO: Final = ("-c", "user.name=a", "-c", "user.email=a@b")


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *WHO, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    package = root / "runtime" / "strandline_runtime"
    package.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "one")
    return root


def commit(root: Path) -> str:
    return git(root, "rev-parse", "HEAD")[:12]


def test_a_checkout_is_named_after_its_commit(checkout: Path) -> None:
    package = str(checkout / "runtime" / "strandline_runtime")
    expected = f"{version('strandline')}+{commit(checkout)}"
    assert build_id(package) == expected
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "two")
    assert build_id(package) == f"{version('strandline')}+{commit(checkout)}" != expected


def test_every_way_in_which_git_keeps_a_commit_is_read(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git" / "refs" / "heads" / "main").exists()
    assert checked_out_commit(str(checkout)) == commit(checkout)
    git(checkout, "checkout", "--quiet", "--detach")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "detached")
    assert checked_out_commit(str(checkout)) == commit(checkout)
    beside = tmp_path / "beside"
    git(checkout, "worktree", "add", "--quiet", "-b", "a/b", str(beside), "main")
    assert checked_out_commit(str(beside)) == commit(beside) != commit(checkout)
    git(beside, "commit", "--quiet", "--allow-empty", "-m", "beside")
    assert checked_out_commit(str(beside)) == commit(beside)
    git(checkout, "checkout", "--quiet", "--orphan", "unborn")
    assert checked_out_commit(str(checkout)) == ""


def test_the_version_stands_alone_where_no_commit_is_known(tmp_path: Path) -> None:
    package = tmp_path / "runtime" / "strandline_runtime"
    package.mkdir(parents=True)
    assert build_id(str(package)) == version("strandline")
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    assert build_id(str(package)) == version("strandline")


def test_what_the_build_has_written_counts(checkout: Path) -> None:
    package = checkout / "runtime" / "strandline_runtime"
    (package / FILE).write_text("9.1.0+src.0123\n")
    assert build_id(str(package)) == "9.1.0+src.0123"
    assert (version_of("9.1.0+src.0123"), commit_of("9.1.0+src.0123")) == ("9.1.0", "src.0123")
    assert (version_of("9.1.0"), commit_of("9.1.0")) == ("9.1.0", "")


def test_an_installed_package_is_no_checkout_of_what_lies_around_it(checkout: Path) -> None:
    """A virtual environment in the repository of somebody's application."""
    package = checkout / ".venv" / "lib" / "site-packages" / "strandline_runtime"
    package.mkdir(parents=True)
    assert build_id(str(package)) == version("strandline")


def test_a_package_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_installed_version", lambda: module.UNKNOWN)
    assert version_of(build_id("/nowhere/at/all")) == "unknown"


@pytest.mark.parametrize(
    "program", ["strandline_broker.__main__", "strandline_spark.commands.main"]
)
def test_each_program_names_its_build(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module(program).main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"strandline {build_id()}\n"
