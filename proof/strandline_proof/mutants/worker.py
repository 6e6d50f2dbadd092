"""Runs the plans of one mutant in a process of its own, on the sources that its path names.

    python -m strandline_proof.mutants.worker NAME FIRST NUMBER SECONDS [ROOT]

It prints one JSON object: what came of it. With ROOT every changed module must come from there.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.mutants.mutant import Mutant
    from strandline_proof.sim.run import RunResult

MISTAKES: Final = (ImportError, TypeError, NameError, AttributeError, SyntaxError)
"""Errors of a bad patch. One of them is never a detection."""


class _Mistakes(logging.Handler):
    """Keeps what handlers of calls have raised: a caller sees only that it failed."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.found.extend(_leaves(record.exc_info[1]))


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    """The errors inside groups, with what caused them."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _leaves(inner)
        else:
            yield error
        error = error.__cause__


def _raised(result: RunResult, in_calls: list[BaseException]) -> list[BaseException]:
    """What nodes have died of, and what their handlers have raised."""
    errors = [*in_calls, *_leaves(result.failure)]
    for line in result.timeline.lines:
        error = line.fields.get("exc_info")
        if isinstance(error, BaseException):
            errors.extend(_leaves(error))
    return errors


def _found_by(result: RunResult, raised: list[BaseException]) -> str:
    """The invariant's number; `assertion` if the mutated code itself contradicts the run."""
    if result.invariant in ("exit", "uncaught") and any(
        isinstance(error, AssertionError) and not isinstance(error, Violation) for error in raised
    ):
        return "assertion"
    return result.invariant


def _check_sources(mutant: Mutant, root: str) -> None:
    for edit in mutant.edits:
        module = import_module(edit.file.removesuffix(".py").replace("/", "."))
        assert str(module.__file__).startswith(root), f"{module.__file__} is not from {root}"


def search(name: str, first: int, number: int, seconds: float, root: str) -> dict[str, Any]:
    """Run plans until one is broken, the number is reached, or the time is over."""
    from strandline_proof.mutants.catalogue import mutant_named
    from strandline_proof.mutants.plans import plans
    from strandline_proof.sim.run import run_plan

    mutant = mutant_named(name)
    if root:
        _check_sources(mutant, root)
    mistakes = _Mistakes()
    logger = logging.getLogger("strandline_proof.sim.server_call")
    logger.addHandler(mistakes)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    start, runs = time.monotonic(), 0
    found: dict[str, Any] = {"status": "survived"}
    for plan in plans(mutant.needs, first=first, number=number):
        if time.monotonic() - start > seconds:
            break
        result = run_plan(plan)
        runs += 1
        raised = _raised(result, mistakes.found)
        mistake = next((error for error in raised if isinstance(error, MISTAKES)), None)
        if mistake is not None:
            found = {"status": "bad patch", "why": f"{type(mistake).__name__}: {mistake}"}
            break
        if not result.sound:
            found = {
                "status": "found",
                "by": _found_by(result, raised),
                "why": result.what,
                "number": first + runs - 1,
            }
            break
        result.timeline = None
        gc.collect()
    return found | {"runs": runs, "seconds": round(time.monotonic() - start, 1)}


def main(arguments: list[str]) -> None:
    name, first, number, seconds, *root = arguments
    print(json.dumps(search(name, int(first), int(number), float(seconds), "".join(root))))


if __name__ == "__main__":
    main(sys.argv[1:])
