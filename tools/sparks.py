"""Runs tests of Spark with several versions of PySpark, each in an environment of its own.

An environment `.venv-spark-X.Y` holds that PySpark alone. Everything else is .venv's, of which it
sees the packages behind its own. The versions and what works with each stand in
`strandline_spark/spark_versions.py`; a version in which streams are refused runs
`tests/spark/test_spark_versions.py` alone.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RELEASES = {"4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""The newest release of each version."""
BATCHES_ALONE = ("4.0", "4.1")
EVERY = ("tests/spark/test_spark_versions.py",)
STREAMS = (
    "tests/spark/source/test_spark_source.py",
    "tests/spark/source/test_spark_sql.py",
    "tests/spark/sink/test_spark_sink.py",
    "tests/spark/pipeline/test_spark_pipeline.py",
    "tests/spark/pipeline/test_spark_state.py",
    "tests/spark/gold/test_spark_gold_step.py",
)
"""Source, sink, and pipelines with bronze, silver, gold and state."""
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
WORKS = "import strandline_spark.data_source, pyspark; print(pyspark.__version__)"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sparks.py", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="for instance 4.2")
    parser.add_argument("--tests", help="what pytest runs, in place of the named tests")
    chosen = parser.parse_args(words)
    failed = []
    for version in chosen.versions or RELEASES:
        if version not in RELEASES:
            parser.error(f"{version}: give some of {', '.join(RELEASES)}")
        print(f"PySpark {RELEASES[version]}", flush=True)
        tests = tests_of(version) if chosen.tests is None else chosen.tests.split()
        if not passes(version, tests):
            failed.append(version)
    if failed:
        print(f"error: the tests failed, or did not run, with PySpark {', '.join(failed)}")
    return 1 if failed else 0


def tests_of(version: str) -> Sequence[str]:
    return EVERY if version in BATCHES_ALONE else EVERY + STREAMS


def passes(version: str, tests: Sequence[str]) -> bool:
    python = environment(version)
    if python is None:
        return False
    command = [python, "-m", "pytest", "--numprocesses", "0", "--quiet", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def environment(version: str) -> str | None:
    """Returns the interpreter of the version's environment, which it makes if needed."""
    folder, release = ROOT / f".venv-spark-{version}", RELEASES[version]
    python = folder / "bin" / "python"
    if _output([str(python), "-c", WORKS]) == release:
        return str(python)
    own = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    made = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), *PIP, f"pyspark=={release}"],
    ]
    if any(subprocess.run(step, cwd=ROOT, check=False).returncode != 0 for step in made):
        return None
    # Behind its own packages, and with the path files of editable installs there.
    others = next(each for each in sys.path if each.endswith("site-packages"))
    text = f"import site; site.addsitedir({others!r})\n"
    (own / "of-the-project.pth").write_text(text, encoding="utf-8")
    found = _output([str(python), "-c", WORKS])
    if found != release:
        print(f"error: {python} imports PySpark {found}, not {release}")
        return None
    return str(python)


def _output(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
