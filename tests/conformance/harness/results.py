"""Results of the conformance tests, and the file that the table of docs/ is generated from."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Adds the results of a part (by client, then by step) to the file that the variable names.

    The file keeps no times, so that two runs with the same outcome write the same file.
    """
    name = os.environ.get(RESULTS_VARIABLE)
    if name is None:
        return
    path = Path(name)
    document = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for client, steps in results.items():
        document.setdefault(part, {}).setdefault(client, {}).update(
            {step: {"outcome": each.outcome, "detail": each.detail} for step, each in steps.items()}
        )
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")


@contextlib.contextmanager
def recorded(part: str, client: str, step: str) -> Iterator[None]:
    """Keeps whether the body passed; its failure goes on."""
    started = time.monotonic()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        outcome = Outcome.PASSED if failure is None else Outcome.FAILED
        detail = "" if failure is None else str(failure)[:2000]
        result = Result(outcome, detail, round(time.monotonic() - started, 1))
        keep(part, {client: {step: result}})
