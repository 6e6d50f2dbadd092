"""The versions of PySpark, and what works with each.

Spark 4.0 and 4.1 ask the reader of a stream for the newest offset without the query's position, and
without a limit. So a reader that was just restarted cannot keep end offsets from decreasing, limit
a micro-batch, or end `availableNow` where it began. Streams are refused there; batches work.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from strandline_spark.errors import EnvironmentProblem

Version = tuple[int, int]
SUPPORTED: Final[tuple[Version, ...]] = ((4, 0), (4, 1), (4, 2), (4, 3))
"""`pyproject.toml` allows these, and `make sparks` runs tests with each."""
STREAM_WRITES_FROM: Final[Version] = (4, 1)
"""Earlier versions pass a stream's rows to a sink one by one, not as Arrow batches."""
STREAM_READS_FROM: Final[Version] = (4, 2)
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)")


def installed() -> str:
    """Returns the version of PySpark here, without its import if pip installed it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:  # a cluster's Spark has it in a folder of its own
        import pyspark

        return str(pyspark.__version__)


def parsed(text: str) -> Version:
    found = _NUMBERS.match(text)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def check_supported(text: str | None = None) -> None:
    """Raises EnvironmentProblem for a version of PySpark with which nothing is tested."""
    text = installed() if text is None else text
    if parsed(text) not in SUPPORTED:
        raise EnvironmentProblem(
            f"PySpark {text} is installed; Strandline works with {_named(SUPPORTED[0])} to"
            f" {_named(SUPPORTED[-1])}: {_remedy(SUPPORTED[0])}"
        )


def check_stream_reads(what: str, text: str | None = None) -> None:
    """Raises EnvironmentProblem for a version that asks no stream where to begin."""
    text = installed() if text is None else text
    check_supported(text)
    if parsed(text) < STREAM_READS_FROM:
        raise EnvironmentProblem(
            f"{what}: PySpark {text} does not tell a Python source the position of its query, so a"
            f" stream could lose or repeat records; {_remedy(STREAM_READS_FROM)}, or read in"
            " batches (spark.read)"
        )


def check_stream_writes(text: str | None = None) -> None:
    """Raises EnvironmentProblem for a version that has no Arrow batches for a stream's sink."""
    text = installed() if text is None else text
    check_supported(text)
    if parsed(text) < STREAM_WRITES_FROM:
        raise EnvironmentProblem(
            f"writeStream: PySpark {text} passes no Arrow batches to the sink of a stream;"
            f" {_remedy(STREAM_WRITES_FROM)}, or write in batches (DataFrame.write)"
        )


def _remedy(lowest: Version) -> str:
    major, minor = SUPPORTED[-1]
    return f"pip install 'pyspark>={_named(lowest)},<{major}.{minor + 1}'"


def _named(one: Version) -> str:
    return f"{one[0]}.{one[1]}"
