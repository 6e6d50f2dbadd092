"""What a build adds to the sources: the compiled part of the package, and the id of the build.

The C file is compiled beside its source where there is a compiler. Without one the package has a
Python twin that gives the same answers, and says so. STRANDLINE_PURE_PYTHON=1 leaves it out.

The id names version and commit. The commit is STRANDLINE_COMMIT, or git's, or the one of the source
distribution that is built; where none of them is there, a digest of the sources stands for it.

STRANDLINE_URL is the public address of the project, which a release's metadata names.
"""

import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import sys_tags

SOURCE = "proto/strandline_proto/_records.c"
TARGET = "proto/strandline_proto/_records.abi3.so"
FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-fPIC")
TIMEOUT_S = 120
BUILD_ID = "runtime/strandline_runtime/build_id.txt"
COMMIT_LENGTH = 12
PACKAGED = (
    "proto",
    "runtime",
    "broker",
    "client",
    "spark_jobs",
    "cli",
    "chaos",
    "console",
    "bench",
)
"""The source roots of the wheel: what a build is made of."""
MADE = frozenset({".pyc", ".so", ".nbc", ".nbi"})
"""Endings of files there that are made from the sources."""
_COMMIT = re.compile(r"[0-9A-Za-z]+(\.[0-9A-Za-z]+)*")
"""What may stand behind the plus of a version (PEP 440)."""


class AddressHook(MetadataHookInterface):
    """Names the project's address: there is none before somebody publishes a release."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        url = os.environ.get("STRANDLINE_URL", "").rstrip("/")
        if not url:
            return
        if not url.startswith("https://"):
            raise ValueError(f"STRANDLINE_URL={url!r} is no address: it begins with https://")
        metadata["urls"] = {"Homepage": url, "Source": url, "Issues": f"{url}/issues"}


class ExtensionBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called for wheels, editable installs and source distributions."""

    PLUGIN_NAME = "custom"
    _written: Path | None = None
    """The file with the id, until the build has taken it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and not Path(self.root, BUILD_ID).exists():
            self._add_build_id(build_data)
        if self.target_name == "wheel":
            self._add_extension(build_data, is_editable=version == "editable")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._written is not None:
            self._written.unlink(missing_ok=True)

    def _add_build_id(self, build_data: dict[str, Any]) -> None:
        """From a file elsewhere: one in the sources would name a commit that has passed."""
        build_id = f"{self.metadata.version}+{commit_of(Path(self.root))}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write(build_id)
        self._written = Path(file.name)
        self._written.chmod(0o644)
        inside = BUILD_ID if self.target_name == "sdist" else BUILD_ID.partition("/")[2]
        build_data["force_include"][file.name] = inside

    def _add_extension(self, build_data: dict[str, Any], *, is_editable: bool) -> None:
        """A wheel without the extension leaves that of the checkout: programs run with it."""
        target = Path(self.root, TARGET)
        if os.environ.get("STRANDLINE_PURE_PYTHON", "0") not in ("", "0"):
            if is_editable:
                target.unlink(missing_ok=True)
            return
        if why := compile_into(target, Path(self.root, SOURCE)):
            target.unlink(missing_ok=True)
            self.app.display_warning(
                f"{SOURCE} is not compiled, so brokers check records and Spark jobs find them in"
                f" Python, some hundred times slower; install a C compiler and Python's headers and"
                f" install again: {why}"
            )
            return
        build_data["artifacts"].append(f"/{TARGET}")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform_tag()}"


def commit_of(root: Path) -> str:
    """The commit, and `.dirty` with a digest if the sources have changed since."""
    told = os.environ.get("STRANDLINE_COMMIT", "").strip()
    if told:
        if not _COMMIT.fullmatch(told):
            raise ValueError(
                f"STRANDLINE_COMMIT={told!r} is no commit: give its digits, as `git rev-parse"
                f" --short={COMMIT_LENGTH} HEAD` prints them"
            )
        return told
    try:
        # The sources may lie in the repository of something else.
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return f"src.{digest_of(root)}"
        commit = _git(root, "rev-parse", "HEAD")[:COMMIT_LENGTH]
        changed = _git(root, "status", "--porcelain", "--", *PACKAGED, "pyproject.toml")
    except (OSError, subprocess.SubprocessError):
        return f"src.{digest_of(root)}"
    return f"{commit}.dirty.{digest_of(root)}" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout.strip()


def digest_of(root: Path) -> str:
    """Of every source file and its name, so that two builds of other sources differ."""
    found = hashlib.sha256()
    for path in sorted(path for part in PACKAGED for path in Path(root, part).rglob("*")):
        if path.suffix not in MADE and path.is_file():
            data = path.read_bytes()
            found.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
            found.update(data)
    return found.hexdigest()[:COMMIT_LENGTH]


def compile_into(target: Path, source: Path) -> str | None:
    """Why it could not be compiled; None if it was. The file appears whole or not at all."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    include = f"-I{sysconfig.get_path('include')}"
    made = target.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, *link_flags(sys.platform), include, "-o", str(made), str(source)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if run.returncode != 0:
            return run.stderr.strip() or f"{compiler[0]} ended with {run.returncode}"
        made.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return None


def link_flags(platform: str) -> tuple[str, ...]:
    """The linker's part. The interpreter has Python's symbols; macOS' linker would miss them."""
    return ("-bundle", "-undefined", "dynamic_lookup") if platform == "darwin" else ("-shared",)


def platform_tag() -> str:
    """Of the machine that compiled it: no promise about others (manylinux) is made.

    On macOS the compiler follows MACOSX_DEPLOYMENT_TARGET, and so does the tag.
    """
    target = os.environ.get("MACOSX_DEPLOYMENT_TARGET")
    if sys.platform == "darwin" and target:
        return f"macosx_{target.replace('.', '_')}_{platform.machine()}"
    promises = ("manylinux", "musllinux")
    return next(t.platform for t in sys_tags() if not t.platform.startswith(promises))
