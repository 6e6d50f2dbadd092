"""Runs tests with several versions of Python, each in an environment of its own.

A version that this machine lacks is named, and fails nothing unless --all is given. Interpreters
are looked for on the path (`python3.12`), among pyenv's, and by `uv python find`.

--small leaves out what takes most of the time to install: the libraries of Spark, and tools that
judge sources. The tests of the contract and of the client need neither.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements" / "all.txt"
LARGE = {
    *("arro3-core", "deltalake", "duckdb", "numpy", "polars", "polars-runtime-32"),
    *("py4j", "pyarrow", "pyspark"),
    *("buf-bin", "confluent-kafka", "grimp", "grpcio-tools", "import-linter", "pip-tools", "ruff"),
}
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pythons.py", description=__doc__)
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="for instance 3.13")
    parser.add_argument("--tests", default="tests/unit", help="what pytest runs")
    parser.add_argument("--small", action="store_true", help="install no large libraries")
    parser.add_argument("--all", action="store_true", help="a version that is not found fails")
    chosen = parser.parse_args(words)
    failed = []
    for version in chosen.versions:
        interpreter = next(interpreters(version), None)
        if interpreter is None:
            print(f"Python {version}: not found on this machine")
            failed += [version] * chosen.all
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
            text = REQUIREMENTS.read_text("utf-8")
            wanted.write(small(text) if chosen.small else text)
            wanted.flush()
            if not passes(version, interpreter, wanted.name, chosen.tests.split()):
                failed.append(version)
    if failed:
        print(f"error: the tests failed, or did not run, with Python {', '.join(failed)}")
    return 1 if failed else 0


def interpreters(version: str) -> Iterator[str]:
    """The interpreters of that version here that do start, the first on the path first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [
        shutil.which(f"python{version}"),
        *map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)),
    ]
    if uv := shutil.which("uv"):
        asked = [uv, "python", "find", "--no-python-downloads", version]
        found.append(_output(asked))
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    return (each for each in found if each and _output([each, "-c", ask]) == version)


def _output(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def small(requirements: str) -> str:
    """Pinned requirements without the large ones."""
    blocks = re.split(r"^(?=[a-z])", requirements, flags=re.MULTILINE)
    return "".join(each for each in blocks if each.partition("==")[0] not in LARGE)


def passes(version: str, interpreter: str, requirements: str, tests: Sequence[str]) -> bool:
    """True if the tests pass in an environment with these pinned requirements."""
    folder = ROOT / f".venv-{version}"
    python = str(folder / "bin" / "python")
    for step in (
        [interpreter, "-m", "venv", str(folder)],
        [python, *PIP, "--require-hashes", "-r", requirements],
        [python, *PIP, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        [python, "-m", "pytest", "--numprocesses", "2", "--dist", "loadfile", "--quiet", *tests],
    ):
        if subprocess.run(step, cwd=ROOT, check=False).returncode != 0:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
