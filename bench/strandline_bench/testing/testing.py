"""The pytest plugin's two waits: for the cluster of a session, and for the topic of a test.

Each round is a run of pytest on a file of small tests, which times its own fixtures.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from strandline_bench.options import Options
from strandline_bench.report import Report, median, percentile
from strandline_local.errors import ClusterError

_RESULTS: Final = "BENCH_FIXTURES"
"""No name of a setting of the servers: they refuse one that they do not know."""
_TESTS: Final = f"""\
import json, os, time
import pytest

def timed(request, fixture):
    began = time.perf_counter()
    found = request.getfixturevalue(fixture)
    with open(os.environ["{_RESULTS}"], "a") as results:
        print(json.dumps([fixture, time.perf_counter() - began]), file=results)
    return found

def test_the_cluster(request):
    timed(request, "strandline_cluster")

@pytest.mark.parametrize("number", range(int(os.environ["{_RESULTS}_TESTS"])))
def test_a_topic(request, strandline_producer, number):
    with strandline_producer() as producer:
        producer.send_and_wait(timed(request, "strandline_topic"), b"a record")
"""
_ROUND_S_MAX: Final = 600


def run(options: Options, report: Report) -> None:
    ready: list[float] = []
    topics: list[float] = []
    for number in range(1, options.rounds + 1):
        found = _round(options)
        ready += found["strandline_cluster"]
        topics += found["strandline_topic"]
        report.measured("testing-round", {"round": number, "cluster_ready_s": ready[-1]})
    report.measured(
        "testing",
        {
            "cluster_ready_s": median(ready),
            "cluster_ready_s_max": max(ready),
            "topic_ms": median(topics) * 1000,
            "topic_ms_p99": percentile(topics, 0.99) * 1000,
            "tests": len(topics),
            "rounds": options.rounds,
        },
    )


def _round(options: Options) -> dict[str, list[float]]:
    """Seconds that each fixture took, in the order of the tests."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        results = Path(folder, "results")
        Path(folder, "test_fixtures.py").write_text(_TESTS, "utf-8")
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        try:
            ran = subprocess.run(
                [*pytest, "--strandline-brokers", str(options.brokers), "test_fixtures.py"],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTEST_ADDOPTS": "",
                    _RESULTS: str(results),
                    f"{_RESULTS}_TESTS": str(options.records),
                },
                capture_output=True,
                text=True,
                timeout=_ROUND_S_MAX,
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"a round did not end within {_ROUND_S_MAX} s") from None
        if ran.returncode != 0:
            raise ClusterError(f"the measured tests failed: {ran.stdout}{ran.stderr}".rstrip())
        found: dict[str, list[float]] = {"strandline_cluster": [], "strandline_topic": []}
        for line in results.read_text("utf-8").splitlines():
            fixture, took = json.loads(line)
            found[fixture].append(took)
        return found
