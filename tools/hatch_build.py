"""The one compiled part of the package, built by hatchling beside its C file where there is a
compiler. Without one the package has a Python twin that gives the same answers, and says so.

STRANDLINE_PURE_PYTHON=1 leaves it out.
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCE = "proto/strandline_proto/_records.c"
TARGET = "proto/strandline_proto/_records.abi3.so"
FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC")
TIMEOUT_S = 120


class ExtensionBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called for wheels and editable installs alike."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        target = Path(self.root, TARGET)
        if os.environ.get("STRANDLINE_PURE_PYTHON", "0") not in ("", "0"):
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


def compile_into(target: Path, source: Path) -> str | None:
    """Why it could not be compiled; None if it was. The file appears whole or not at all."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    include = f"-I{sysconfig.get_path('include')}"
    made = target.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, include, "-o", str(made), str(source)]
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


def platform_tag() -> str:
    """Of the machine that compiled it: no promise about others (manylinux) is made."""
    promises = ("manylinux", "musllinux")
    return next(t.platform for t in sys_tags() if not t.platform.startswith(promises))
