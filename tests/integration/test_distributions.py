"""A wheel and a source distribution, built from a copy of these sources: what is in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from support.command import clean_environ
from support.tidy_tree import ROOT

pytestmark = pytest.mark.integration

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SOURCES: Final[list[str]] = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
VERSION: Final[str] = PROJECT["project"]["version"]
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## ")[2]
BUILD_S: Final = 120.0
ID: Final = "strandline_runtime/build_id.txt"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as they are, in a repository of their own with one commit."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: `make setup` installs it")
    root = tmp_path_factory.mktemp("sources") / "checkout"
    root.mkdir()
    made = shutil.ignore_patterns("__pycache__", "*.so", "*.nbc", "*.nbi", "build_id.txt")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=made)
        else:
            shutil.copy(ROOT / name, root / name)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "all")
    return root


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
    command = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(root: Path, to: Path, target: str, **environ: str) -> Path:
    """The file that is built. The C file stays as it is: compiling has tests of its own."""
    before = set(to.glob("*"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(to)],
        cwd=root,
        env=clean_environ({"STRANDLINE_PURE_PYTHON": "1", **environ}),
        check=True,
        capture_output=True,
        timeout=BUILD_S,
    )
    (made,) = set(to.glob("*")) - before
    return made


def wheel_id(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(ID).decode().strip()


def unpacked(sdist: Path, to: Path) -> Path:
    to.mkdir()
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(to)], check=True)
    (root,) = to.iterdir()
    return root


def test_a_source_distribution_holds_the_sources_and_not_what_commands_write(
    copied: Path, tmp_path: Path
) -> None:
    for written in ("tables/bronze/part.parquet", ".strandline/logs/a.log", "notes.txt"):
        (copied / written).parent.mkdir(parents=True, exist_ok=True)
        (copied / written).write_text("written by a command of README.md")
    try:
        root = unpacked(build(copied, tmp_path / "dist", "sdist"), tmp_path / "unpacked")
    finally:
        shutil.rmtree(copied / "tables")
        shutil.rmtree(copied / ".strandline")
        (copied / "notes.txt").unlink()
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    tracked = set(git(copied, "ls-files").splitlines())
    assert names - tracked == {"PKG-INFO", f"runtime/{ID}"}
    assert tracked - names == set()


def test_every_folder_that_git_knows_is_in_a_source_distribution() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git directory: git cannot say what the sources are")
    assert {name.partition("/")[0] for name in git(ROOT, "ls-files").splitlines()} == set(SOURCES)


def test_a_release_is_a_source_distribution_and_the_wheel_built_from_it(
    copied: Path, tmp_path: Path
) -> None:
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("no C compiler or no Python headers here")
    done = subprocess.run(
        [sys.executable, "tools/release.py", "--draft", "--out", str(tmp_path)],
        cwd=copied,
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    (wheel,) = (name for name in names if name.startswith(f"strandline-{VERSION}-cp311-abi3-"))
    assert names == {wheel, f"strandline-{VERSION}.tar.gz", "SHA256SUMS"}
    assert [line.split()[1] for line in done.stdout.splitlines()] == [
        f"strandline-{VERSION}.tar.gz",
        wheel,
    ]
    refused = subprocess.run(
        [sys.executable, "tools/release.py", "--out", str(tmp_path / "none")],
        cwd=copied,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert refused.returncode == (1 if "not released yet" in CHANGELOG else 0), refused.stderr


def test_every_build_names_the_commit_that_it_is_made_from(copied: Path, tmp_path: Path) -> None:
    expected = VERSION + "+" + git(copied, "rev-parse", "HEAD")[:12]
    assert wheel_id(build(copied, tmp_path / "one", "wheel")) == expected
    sdist = build(copied, tmp_path / "two", "sdist")
    beside = unpacked(sdist, copied / "within")
    try:
        # Where it is unpacked in the repository of something else, too.
        assert wheel_id(build(beside, tmp_path / "three", "wheel")) == expected
    finally:
        shutil.rmtree(copied / "within")
    assert git(copied, "status", "--porcelain") == "", "a build leaves nothing in the sources"


def test_builds_of_other_sources_have_other_names(copied: Path, tmp_path: Path) -> None:
    commit = git(copied, "rev-parse", "HEAD")[:12]
    file = copied / "runtime" / "strandline_runtime" / "extras.py"
    before = file.read_bytes()
    names = []
    try:
        for n in range(2):
            file.write_bytes(before + b"# %d\n" % n)
            names.append(wheel_id(build(copied, tmp_path / f"dirty-{n}", "wheel")))
    finally:
        file.write_bytes(before)
    assert all(name.startswith(f"{VERSION}+{commit}.dirty.") for name in names)
    assert len(set(names)) == 2


def test_without_git_a_commit_is_given_or_the_sources_name_the_build(
    copied: Path, tmp_path: Path
) -> None:
    """As in an image, whose build has the sources alone."""
    root = tmp_path / "sources"
    shutil.copytree(copied, root, ignore=shutil.ignore_patterns(".git"))
    digest = wheel_id(build(root, tmp_path / "one", "wheel"))
    assert digest.startswith(f"{VERSION}+src.")
    assert wheel_id(build(root, tmp_path / "two", "wheel")) == digest
    given = build(root, tmp_path / "three", "wheel", STRANDLINE_COMMIT="7540e83e8f2c")
    assert wheel_id(given) == f"{VERSION}+7540e83e8f2c"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        build(root, tmp_path / "four", "wheel", STRANDLINE_COMMIT="no commit")
    assert b"STRANDLINE_COMMIT='no commit' is no commit" in refused.value.stderr


def test_a_wheel_offers_only_commands_that_work_there(copied: Path, tmp_path: Path) -> None:
    wheel = build(copied, tmp_path / "dist", "wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    commit = git(copied, "rev-parse", "HEAD")[:12]
    assert run_wheel(tmp_path, "--version").stdout == f"strandline {VERSION}+{commit}\n"
    shown = run_wheel(tmp_path, "--help").stdout
    assert "topic" in shown
    assert "chaos" in shown
    planned = run_wheel(tmp_path, "chaos", "live", "--plan", "--faults", "kill", "--seed", "1")
    assert planned.stdout.startswith("plan of seed 1"), planned.stderr
    refused = run_wheel(tmp_path, "chaos", "sim", "--seeds", "1")
    assert refused.returncode == 1
    assert "in a checkout" in refused.stderr


def run_wheel(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command of the wheel, which sees no source root of this checkout."""
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    start = "from strandline_cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-S", "-c", start, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "site"), *libraries])},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
