"""Builds what a release publishes: a source distribution, and from it the wheel of this platform.

Refuses sources that are not what a release is made of: changes that are not committed, a version
without a dated entry of CHANGELOG.md, a tag of that version at another commit. `--draft` builds
nevertheless. The wheel has one compiled file for all versions of Python from 3.11 on (abi3).
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BUILD_S = 600
COMPILED = "strandline_proto/_records.abi3.so"
BUILD_ID = "strandline_runtime/build_id.txt"
DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
ENTRY = re.compile(r"^## (\S+), (.+)$", re.MULTILINE)


class Release(NamedTuple):
    version: str
    commit: str


class NotAReleaseError(Exception):
    """The sources, or what was built of them, are not fit for a release; with the remedy."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="release.py", description=__doc__)
    parser.add_argument("--draft", action="store_true", help="build unreleased sources too")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the results")
    chosen = parser.parse_args(words)
    try:
        if not chosen.draft and (faults := list(faults_of_sources(ROOT))):
            raise NotAReleaseError("; ".join(faults))
        built = build(ROOT, chosen.out)
        check(built, version_of(ROOT))
    except (NotAReleaseError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for line in write_sums(built, chosen.out):
        sys.stdout.write(line + "\n")
    return 0


def version_of(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def releases_of(root: Path) -> list[Release]:
    """The releases until now, the newest first."""
    found = tomllib.loads((root / "tools" / "releases.toml").read_text("utf-8"))
    return [Release(**each) for each in found["release"]]


def faults_of_sources(root: Path) -> Iterator[str]:
    """The reasons why no release can be made of these sources; none if one can."""
    version = version_of(root)
    if ".dev" in version:
        version = version.partition(".dev")[0]
        yield f'pyproject.toml has a version in development: set version = "{version}"'
    for each in releases_of(root):
        if each.version == version:
            yield f"{version} is released, at commit {each.commit[:12]}: raise the version"
    newest = ENTRY.search((root / "CHANGELOG.md").read_text("utf-8"))
    if newest is None or newest[1] != version:
        yield f"CHANGELOG.md does not begin with version {version} of pyproject.toml: add its entry"
    elif not DATED.fullmatch(newest[2]):
        yield f"CHANGELOG.md says `{version}, {newest[2]}`: write the date of the release"
    if changed := _git(root, "status", "--porcelain"):
        yield f"changes are not committed: {changed.splitlines()[0].strip()}"
    tagged = _git(root, "tag", "--list", f"v{version}", "--format", "%(*objectname)%(objectname)")
    if tagged and _git(root, "rev-parse", "HEAD") not in tagged:
        yield f"the tag v{version} names another commit: raise the version in pyproject.toml"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def build(root: Path, out: Path) -> list[Path]:
    """The two files. The wheel is built from the unpacked source distribution."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources, made = Path(folder, "sources"), Path(folder, "made")
        sdist = _hatch(root, made / "sdist", "sdist")
        shutil.unpack_archive(sdist, sources)
        (unpacked,) = sources.iterdir()
        wheel = _hatch(unpacked, made / "wheel", "wheel")
        return [Path(shutil.copy(file, out)) for file in (sdist, wheel)]


def _hatch(root: Path, out: Path, target: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        raise NotAReleaseError(f"hatchling built no {target}: {done.stderr.strip()}")
    (made,) = out.iterdir()
    return made


def check(built: list[Path], version: str) -> None:
    """Raises NotAReleaseError if a file is not named, filled or labelled as a release's is."""
    sdist, wheel = built
    if sdist.name != f"strandline-{version}.tar.gz":
        raise NotAReleaseError(f"{sdist.name} is no source distribution of {version}")
    if not re.fullmatch(rf"strandline-{re.escape(version)}-cp311-abi3-\w+\.whl", wheel.name):
        raise NotAReleaseError(
            f"{wheel.name} is no abi3 wheel: install a C compiler and Python's headers, and unset"
            " STRANDLINE_PURE_PYTHON"
        )
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        if missing := {COMPILED, BUILD_ID} - names:
            raise NotAReleaseError(f"{wheel.name} lacks {', '.join(sorted(missing))}")
        build_id = archive.read(BUILD_ID).decode().strip()
    if not build_id.startswith(f"{version}+"):
        raise NotAReleaseError(f"{wheel.name} names its build {build_id}, not {version}+COMMIT")
    if tops := {name.partition("/")[0] for name in names} & {"tests", "proof", "strandline_proof"}:
        raise NotAReleaseError(f"{wheel.name} has {', '.join(sorted(tops))}")


def write_sums(built: list[Path], out: Path) -> list[str]:
    """Writes SHA256SUMS, and returns its lines."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in built]
    (out / "SHA256SUMS").write_text("\n".join(lines) + "\n", "utf-8")
    return lines


if __name__ == "__main__":
    sys.exit(main())
