"""A fresh environment with a wheel in it.

The environment has the wheel itself. Its dependencies come from this interpreter's environment, so
no package index is needed. The checkout stays invisible: nothing reads this environment's own .pth
files there.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

from support.command import clean_environ

if TYPE_CHECKING:
    from pathlib import Path

STEP_S: Final = 300.0


def installed(wheel: Path, folder: Path) -> Path:
    """The interpreter of an environment that is made in `folder`."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
    interpreter = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)], folder)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = run([str(interpreter), "-c", ask], folder).stdout.strip()
    libraries = sysconfig.get_path("purelib")
    (folder / site / "dependencies.pth").write_text(f"{libraries}\n")
    return interpreter


def run(
    words: list[str], folder: Path, *, check: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words,
        cwd=folder,
        env=clean_environ(environ),
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
