"""kafka-python's own integration tests, from its source archive.

Stand-ins take the place of files that the archive lacks. SASL and TLS are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from conformance.harness import installed
from conformance.harness.clients import client
from conformance.harness.results import Outcome, Result, keep
from conformance.harness.suites import junit_results
from conformance.harness.versions import kept, versions

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.harness.targets import Target

SUITE_TIMEOUT_S = 900
PASSED_MIN = 51
VERSIONS = {"strandline": "4.1.0", "kafka": "4.3.0"}
"""The version of Kafka that kafka-python infers from the advertised requests."""
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        pass

    def dump_logs(self):
        pass

    stop = dump_logs


SpawnedService = ExternalService
"""
EXPLAINED = {
    "test_create_describe_delete_acls": "the cluster has no authorizer",
    "test_alter_replica_log_dirs": "AlterReplicaLogDirs is not served",
    "test_create_partitions": "the test needs a broker with the id 0",
    "test_delete_records": "one poll must have the answers of three brokers, and may end with one",
    "test_describe_metadata_quorum": "DescribeQuorum is not served",
}
"""The tests that may fail, each with its reason."""


@pytest.fixture(scope="module")
def suite() -> Path:
    """The unpacked source archive, with the stand-ins."""
    version = versions()["python"]["kafka-python"]
    folder = kept("kafka-python", version)
    unpacked = folder / f"kafka_python-{version}"
    if not unpacked.exists():
        installed.download_source("kafka-python", version, folder)
        shutil.unpack_archive(folder / f"kafka_python-{version}.tar.gz", folder)
    (unpacked / "test" / "__init__.py").touch()
    (unpacked / "test" / "service.py").write_text(SERVICE, "utf-8")
    return unpacked


def test_kafka_pythons_own_tests_pass(target: Target, suite: Path, tmp_path: Path) -> None:
    """At least 51 of 56 pass, and each other has an explanation."""
    driver = client("confluent-kafka").start(target.bootstrap)
    try:  # a test commits an offset of its second partition
        driver.call("create_topic", topic="transactional_test_topic", partitions=2, replication=3)
    finally:
        driver.close()
    report = tmp_path / "report.xml"
    address = target.bootstrap.split(",")[0]
    command = [*installed.python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line"]
    options = ["--timeout=120", "-k", "not sasl and not ssl", f"--junit-xml={report}"]
    subprocess.run(
        [*command, *options, "test/integration"],
        cwd=suite,
        env={
            **os.environ,
            "KAFKA_VERSION": VERSIONS[target.name],
            "KAFKA_ROOT": str(tmp_path),
            "KAFKA_URI": f"PLAINTEXT://{address}",
        },
        capture_output=True,
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )
    results = {name: _explained(name, result) for name, result in junit_results(report).items()}
    keep("suites", {"kafka-python": results})
    failed = {
        name: result.detail for name, result in results.items() if result.outcome is Outcome.FAILED
    }
    passed = sum(result.outcome is Outcome.PASSED for result in results.values())
    assert set(failed) <= set(EXPLAINED), failed
    assert passed >= PASSED_MIN, f"{passed} of {len(results)} passed"


def _explained(name: str, result: Result) -> Result:
    if result.outcome is not Outcome.FAILED or name not in EXPLAINED:
        return result
    return Result(Outcome.FAILED, EXPLAINED[name], result.seconds)
