"""The reports of test suites that clients bring with them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from conformance.harness.results import Outcome, Result

if TYPE_CHECKING:
    from pathlib import Path


def junit_results(report: Path) -> dict[str, Result]:
    """The result of each test of a JUnit report, by its name."""
    results = {}
    for case in ET.parse(report).iter("testcase"):
        failure = case.find("failure")
        failure = case.find("error") if failure is None else failure
        outcome, detail = Outcome.PASSED, ""
        if failure is not None:
            outcome, detail = Outcome.FAILED, failure.get("message", "")[:500]
        elif (skipped := case.find("skipped")) is not None:
            outcome, detail = Outcome.ABSENT, skipped.get("message", "")[:500]
        name = case.get("name", "")
        results[name] = Result(outcome, detail, round(float(case.get("time", "0")), 1))
    return results
