"""Runs the plans of one mutant in a process of its own, on the sources that its path names.

    python -m strandline_proof.mutants.worker NAME PLANS FIRST NUMBER SECONDS [ROOT]

PLANS are the mutant's `own`, or `ordinary` ones. The worker prints its result as one JSON object.
With ROOT every changed module must come from there.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.mutants.mutant import Needs
from strandline_proof.mutants.verdict import (
    BAD_PATCH,
    FOUND,
    SURVIVED,
    Verdict,
    leaves,
    of_error,
    of_run,
)

if TYPE_CHECKING:
    from strandline_proof.mutants.mutant import Mutant
    from strandline_proof.sim.plan.plan import Plan

OWN: Final = "own"
ORDINARY: Final = "ordinary"


class _Mistakes(logging.Handler):
    """Keeps the errors that handlers of calls raise: a caller sees only that the call failed."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.found.extend(leaves(record.exc_info[1]))


def _check_sources(mutant: Mutant, root: str) -> None:
    for edit in mutant.edits:
        module = import_module(edit.module)
        assert str(module.__file__).startswith(root), f"{module.__file__} is not from {root}"


def _run(plan: Plan, in_calls: list[BaseException]) -> Verdict:
    from strandline_proof.sim.run.run import run_plan

    in_calls.clear()
    try:
        return of_run(run_plan(plan), in_calls)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no find
        return of_error(error)
    finally:
        gc.collect()
        gc.freeze()  # what is left is permanent: the next collection need not look through it


def search(
    name: str, which: str, first: int, number: int, seconds: float, root: str
) -> dict[str, Any]:
    """Runs plans until one is broken, the number is reached, or the time is over.

    A run that ends in another way is no find, and the search goes on. If nothing is found, the
    result names the first of these.
    """
    from strandline_proof.mutants.catalogue import mutant_named
    from strandline_proof.mutants.plans import plans

    mutant = mutant_named(name)
    if root:
        _check_sources(mutant, root)
    mistakes = _Mistakes()
    logger = logging.getLogger("strandline_proof.sim.network.server_call")
    logger.addHandler(mistakes)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    start, runs, verdict = time.monotonic(), 0, Verdict(SURVIVED)
    needs = Needs() if which == ORDINARY else mutant.needs
    for plan in plans(needs, first=first, number=number):
        if time.monotonic() - start > seconds:
            break
        now = _run(plan, mistakes.found)
        runs += 1
        if now.status in (FOUND, BAD_PATCH) or verdict.status == SURVIVED:
            verdict = now
        if now.status in (FOUND, BAD_PATCH):
            break
    return {
        "status": verdict.status,
        "by": verdict.by,
        "why": verdict.why,
        "number": first + runs - 1,
        "runs": runs,
        "seconds": round(time.monotonic() - start, 1),
    }


def main(arguments: list[str]) -> None:
    name, which, first, number, seconds, *root = arguments
    found = search(name, which, int(first), int(number), float(seconds), "".join(root))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
