"""franz-go's own tests of its client, without share groups and SASL."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from conformance.harness import installed
from conformance.harness.results import Outcome, Result, keep

if TYPE_CHECKING:
    from conformance.harness.targets import Target

MODULE = "github.com/twmb/franz-go"
SUITE_TIMEOUT_S = 570
SKIPPED = "Share|SASL|Sasl|Scram|OAuth|Oauth"
EXPLAINED = {
    "Test848RegexBrokerResolves": "a regular expression matches no internal topic",
}
"""The tests that may fail, each with its reason."""
LINE = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \((\S+)s\)", re.MULTILINE)
OUTCOMES = {"PASS": Outcome.PASSED, "FAIL": Outcome.FAILED, "SKIP": Outcome.ABSENT}


def test_franz_gos_own_tests_pass(target: Target) -> None:
    program, package = installed.go_tests(MODULE, "pkg/kgo")
    done = subprocess.run(
        [
            program,
            "-test.v",
            f"-test.timeout={SUITE_TIMEOUT_S - 10}s",
            f"-test.skip={SKIPPED}",
        ],
        cwd=package,
        env={
            **os.environ,
            "KGO_SEEDS": target.bootstrap,
            "KGO_TEST_RECORDS": "20000",
            "KGO_TEST_MAX_TOPIC_PARTS": "7",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )
    results = {
        name: Result(OUTCOMES[outcome], EXPLAINED.get(name, ""), float(seconds))
        for outcome, name, seconds in LINE.findall(done.stdout)
    }
    keep("suites", {"franz-go": results})
    failed = {name for name, result in results.items() if result.outcome is Outcome.FAILED}
    assert len(results) > 100, (done.stdout + done.stderr)[-2000:]
    assert failed <= set(EXPLAINED), failed
