"""Looks for each mutant with the simulator, and counts what it takes to find it.

A mutant counts as found only if an oracle, or an assertion of the mutated code, contradicts a run
whose very plan is sound on the original sources. A crash for another reason is a bad patch. Of some
bugs a written history tells that no simulated cluster lives through, such as a log that was
compacted while it was loaded: its test must fail with the mutant, and pass without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.mutants.scratch import plant, search_path, source_root
from strandline_proof.mutants.worker import MISTAKES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strandline_proof.mutants.mutant import Mutant

START_S: Final = 60.0
"""A worker has so long beyond its own bound to start, and to end its last run."""

FOUND: Final = "found"
SURVIVED: Final = "survived"
EQUIVALENT: Final = "equivalent"
BAD_PATCH: Final = "bad patch"
HANGS: Final = "hangs"
TESTS_PASSED: Final = 0
TESTS_FAILED: Final = 1
UNSOUND: Final = "unsound without it"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the search for one mutant; whichever is reached first."""

    seeds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    status: str
    runs: int = 0
    seconds: float = 0.0
    by: str = ""
    """The invariant whose oracle found it, or the kind of failure."""
    why: str = ""

    @property
    def passes(self) -> bool:
        return self.status in (FOUND, EQUIVALENT)

    def document(self) -> dict[str, object]:
        mutant = self.mutant
        return {
            "name": mutant.name,
            "rules": mutant.rules,
            "what": mutant.what,
            "needs": str(mutant.needs),
            "plans": mutant.plans,
            "status": self.status,
            "seeds": self.runs,
            "seconds": self.seconds,
            "found_by": self.by,
            "why": self.why,
        }


def look_for(mutant: Mutant, bounds: Bounds) -> Result:
    """Raises DoesNotApply."""
    if mutant.equivalent:
        return Result(mutant, EQUIVALENT, why=mutant.equivalent)
    with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
        root = Path(scratch)
        plant(mutant, root)
        if mutant.history:
            return _look_by_history(mutant, bounds.seconds, root)
        found = _work(mutant, 1, bounds.seeds, bounds.seconds, root)
    by, why = found.get("by", ""), found.get("why", "")
    result = Result(mutant, found["status"], found["runs"], found["seconds"], by, why)
    if result.status != FOUND:
        return result
    original = _work(mutant, found["number"], 1, bounds.seconds, None)
    if original["status"] == SURVIVED:
        return result
    why = f"the plan that found it: {original.get('why', original['status'])}"
    return Result(mutant, UNSOUND, result.runs, result.seconds, by, why)


def look_for_all(
    mutants: Sequence[Mutant], bounds: Bounds, *, jobs: int, on_result: Callable[[Result], None]
) -> list[Result]:
    """In the order of `mutants`; `on_result` is told of each in that order."""
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        found: Iterator[Result] = pool.map(lambda mutant: look_for(mutant, bounds), mutants)
        for result in found:
            results.append(result)
            on_result(result)
    return results


def _look_by_history(mutant: Mutant, seconds: float, root: Path) -> Result:
    """Its test must fail with it and pass without it."""
    _, _, name = mutant.history.partition("::")
    start = time.monotonic()
    status, said = _play(mutant.history, seconds, search_path(root))
    spent = round(time.monotonic() - start, 1)
    if status == TESTS_PASSED:
        return Result(mutant, SURVIVED, 1, spent)
    if status != TESTS_FAILED or any(f"{kind.__name__}: " in said for kind in MISTAKES):
        return Result(mutant, BAD_PATCH, 1, spent, why=said)
    original, said = _play(mutant.history, seconds, search_path(Path.cwd()))
    if original != TESTS_PASSED:
        return Result(mutant, UNSOUND, 1, spent, name, said)
    return Result(mutant, FOUND, 1, spent, name, said)


def _play(history: str, seconds: float, path: str) -> tuple[int, str]:
    """The exit status of pytest, and what it complained of."""
    checkout = source_root("strandline_proof").parent
    options = ("-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=short")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, history],
            cwd=checkout,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + START_S,
        )
    except subprocess.TimeoutExpired:
        return -1, f"{history} does not end"
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, " ".join(line[1:].strip() for line in lines if line.startswith("E "))


def _work(
    mutant: Mutant, first: int, number: int, seconds: float, root: Path | None
) -> dict[str, Any]:
    """What the worker says; its process ends in any case."""
    arguments = [mutant.name, first, number, seconds, *([] if root is None else [root])]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = search_path(root if root is not None else Path.cwd())
    start = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "strandline_proof.mutants.worker", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + START_S,
        )
    except subprocess.TimeoutExpired:
        spent = round(time.monotonic() - start, 1)
        return {"status": HANGS, "runs": 0, "seconds": spent, "why": "a run does not end"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"status": BAD_PATCH, "runs": 0, "seconds": 0.0, "why": last[0]}
    document: dict[str, Any] = json.loads(done.stdout)
    return document
