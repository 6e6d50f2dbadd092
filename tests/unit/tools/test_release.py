"""The sources and files that a release is made of, and the versions of Python that it names."""

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

import pythons
import release
from support.tidy_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WHEEL = "strandline-1.2.3-cp311-abi3-linux_x86_64.whl"


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    root = tmp_path / "sources"
    root.mkdir()
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.3, 2026-12-01\n\n## 1.2.2, 2026-11-01\n"
    )
    (root / "tools").mkdir()
    (root / "tools" / "releases.toml").write_text(
        '[[release]]\nversion = "1.2.2"\ncommit = "abc"\n'
    )
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "all")
    return root


def test_a_dated_version_of_committed_sources_can_be_released(sources: Path) -> None:
    assert list(release.faults_of_sources(sources)) == []
    git(sources, "tag", "--annotate", "v1.2.3", "--message", "1.2.3")
    assert list(release.faults_of_sources(sources)) == []


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("## 1.2.3, not released yet", "write the date of the release"),
        ("## 1.2.2, 2026-11-01", "does not begin with version 1.2.3"),
        ("nothing", "does not begin with version 1.2.3"),
    ],
)
def test_a_changelog_without_the_dated_version_is_refused(
    sources: Path, heading: str, said: str
) -> None:
    (sources / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    git(sources, "commit", "--quiet", "--all", "-m", "changed")
    (fault,) = release.faults_of_sources(sources)
    assert said in fault


def test_a_version_in_development_and_one_that_is_released_are_refused(sources: Path) -> None:
    (sources / "pyproject.toml").write_text('[project]\nversion = "1.2.3.dev0"\n')
    (sources / "tools" / "releases.toml").write_text(
        '[[release]]\nversion = "1.2.3"\ncommit = "0123456789abcdef"\n'
    )
    git(sources, "commit", "--quiet", "--all", "-m", "changed")
    assert list(release.faults_of_sources(sources)) == [
        'pyproject.toml has a version in development: set version = "1.2.3"',
        "1.2.3 is released, at commit 0123456789ab: raise the version",
    ]


def test_the_releases_have_dated_entries_and_this_version_is_not_one_of_them() -> None:
    dated = dict(release.ENTRY.findall((ROOT / "CHANGELOG.md").read_text("utf-8")))
    for each in release.releases_of(ROOT):
        assert release.DATED.fullmatch(dated[each.version]), each
        assert re.fullmatch(r"[0-9a-f]{40}", each.commit), each
        assert PROJECT["version"] != each.version


def test_changes_and_a_tag_elsewhere_are_refused(sources: Path) -> None:
    git(sources, "tag", "v1.2.3")
    git(sources, "commit", "--quiet", "--allow-empty", "-m", "later")
    (sources / "new.py").touch()
    changed, tagged = release.faults_of_sources(sources)
    assert changed == "changes are not committed: ?? new.py"
    assert tagged.startswith("the tag v1.2.3 names another commit")


def test_a_small_environment_lacks_the_large_libraries_alone() -> None:
    text = (ROOT / "requirements" / "all.txt").read_text("utf-8")
    pins = re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)
    assert set(pins) >= pythons.LARGE, "a name that is pinned no more"
    left = re.findall(r"^([a-z0-9-]+)==", pythons.small(text), re.MULTILINE)
    assert set(left) == set(pins) - pythons.LARGE


def built(folder: Path, wheel: str = WHEEL, **files: str) -> list[Path]:
    sdist = folder / "strandline-1.2.3.tar.gz"
    sdist.touch()
    with zipfile.ZipFile(folder / wheel, "w") as archive:
        archive.writestr(release.COMPILED, "")
        archive.writestr(release.BUILD_ID, files.pop("build_id", "1.2.3+abc\n"))
        for name in files:
            archive.writestr(f"{name}/a.py", "")
    return [sdist, folder / wheel]


def test_a_compiled_wheel_of_the_version_is_accepted(tmp_path: Path) -> None:
    files = built(tmp_path)
    release.check(files, "1.2.3")
    release.write_sums(files, tmp_path)
    assert (
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("wheel", "files", "said"),
    [
        ("strandline-1.2.3-py3-none-any.whl", {}, "is no abi3 wheel: install a C compiler"),
        ("strandline-1.2.3-cp312-abi3-linux_x86_64.whl", {}, "is no abi3 wheel"),
        (WHEEL, {"build_id": "1.2.2+abc"}, "names its build 1.2.2+abc, not 1.2.3+COMMIT"),
        (WHEEL, {"strandline_proof": ""}, "has strandline_proof"),
    ],
)
def test_another_wheel_is_refused(
    tmp_path: Path, wheel: str, files: dict[str, str], said: str
) -> None:
    with pytest.raises(release.NotAReleaseError, match=re.escape(said)):
        release.check(built(tmp_path, wheel, **files), "1.2.3")


def test_the_changelog_begins_with_the_version_of_the_project() -> None:
    newest = release.ENTRY.search((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert newest is not None
    assert newest[1] == PROJECT["version"].partition(".dev")[0]


def test_the_supported_versions_of_python_are_the_same_everywhere() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (named,) = re.findall(r"^PYTHONS \?= (.*)$", makefile, re.MULTILINE)
    classified = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert named.split() == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_an_interpreter_is_found_by_its_version_and_one_that_does_not_start_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in (("python3.55", "3.55"), ("python3.56", "3.12"), ("python3.57", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{f'echo {said}' if said else 'exit 1'}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert list(pythons.interpreters("3.55")) == [str(tmp_path / "python3.55")]
    assert list(pythons.interpreters("3.56")) == []
    assert list(pythons.interpreters("3.57")) == []
    assert list(pythons.interpreters("3.58")) == []
