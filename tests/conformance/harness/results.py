"""Results of the conformance tests, and the file that the table of docs/ is generated from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS_VARIABLE = "TEST_CONFORMANCE_RESULTS"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """The client has no such operation."""


@dataclass(frozen=True, slots=True)
class Result:
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


def keep(part: str, results: Mapping[str, Mapping[str, Result]]) -> None:
    """Adds the results of a part (by client, then by step) to the file that the variable names."""
    name = os.environ.get(RESULTS_VARIABLE)
    if name is None:
        return
    path = Path(name)
    document = json.loads(path.read_text("utf-8")) if path.exists() else {}
    document[part] = {
        client: {
            step: {"outcome": result.outcome, "detail": result.detail, "seconds": result.seconds}
            for step, result in steps.items()
        }
        for client, steps in results.items()
    }
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
