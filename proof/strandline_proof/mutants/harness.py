"""Looks for each mutant with the simulator, and counts the runs until it is found.

A mutant counts as found only if a check contradicts a run: an oracle, or an assertion of the
mutated code. The plan of that run must be sound on the original sources. A crash, a run without an
end or an error of the simulator has a verdict of its own, and does not count.

Some bugs need a written history that no simulated cluster lives through, such as a log that was
compacted while it was loaded. An assertion of its test must fail with the mutant, and the test must
pass without.

Ordinary plans can be requested for every mutant, whatever its own plans are. They find what a sweep
would find.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.mutants import complaints
from strandline_proof.mutants.scratch import plant, search_path, source_root
from strandline_proof.mutants.verdict import BAD_PATCH, CRASHES, FOUND, MISTAKES, SURVIVED
from strandline_proof.mutants.worker import ORDINARY, OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strandline_proof.mutants.mutant import Mutant

START_S: Final = 60.0
"""Time beyond a worker's own bound, to start and to end its last run."""

EQUIVALENT: Final = "equivalent"
HANGS: Final = "hangs"
UNSOUND: Final = "unsound without it"
TESTS_PASSED: Final = 0
TESTS_FAILED: Final = 1
DOES_NOT_END: Final = -1
ASSERTED: Final = ("AssertionError", "Failed: DID NOT RAISE")
"""Openings of a complaint that show that an assertion of a test has failed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the search for one mutant; the first one reached ends it."""

    seeds: int
    seconds: float
    first: int = 1
    """The first plan's number."""
    ordinary: bool = False
    """True if the plans are those of any seed, whatever the mutant needs."""


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
    """Looks for one mutant. Raises DoesNotApply if it does not fit the sources."""
    if mutant.equivalent:
        return Result(mutant, EQUIVALENT, why=mutant.equivalent)
    with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
        root = Path(scratch)
        plant(mutant, root)
        if mutant.history and not bounds.ordinary:
            return _look_by_history(mutant, bounds.seconds, root)
        found = _work(mutant, bounds, root)
    by, why = found.get("by", ""), found.get("why", "")
    result = Result(mutant, found["status"], found["runs"], found["seconds"], by, why)
    if result.status != FOUND:
        return result
    original = _work(mutant, replace(bounds, seeds=1, first=found["number"]), None)
    if original["status"] == SURVIVED:
        return result
    why = f"the plan that found it: {original.get('why', original['status'])}"
    return Result(mutant, UNSOUND, result.runs, result.seconds, by, why)


def look_for_all(
    mutants: Sequence[Mutant], bounds: Bounds, *, jobs: int, on_result: Callable[[Result], None]
) -> list[Result]:
    """Looks for all mutants and calls `on_result` with each result, in the order of `mutants`."""
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        found: Iterator[Result] = pool.map(lambda mutant: look_for(mutant, bounds), mutants)
        for result in found:
            results.append(result)
            on_result(result)
    return results


def _look_by_history(mutant: Mutant, seconds: float, root: Path) -> Result:
    """The mutant's test must fail with it and pass without it."""
    _, _, name = mutant.history.partition("::")
    start = time.monotonic()
    status, said = _play(mutant.history, seconds, search_path(root))
    spent = round(time.monotonic() - start, 1)
    if status == TESTS_PASSED:
        return Result(mutant, SURVIVED, 1, spent)
    if status == DOES_NOT_END:
        return Result(mutant, HANGS, 1, spent, why=said)
    if status != TESTS_FAILED or any(f"{kind.__name__}: " in said for kind in MISTAKES):
        return Result(mutant, BAD_PATCH, 1, spent, why=said)
    if not said.startswith(ASSERTED):
        return Result(mutant, CRASHES, 1, spent, why=said)
    original, said = _play(mutant.history, seconds, search_path(Path.cwd()))
    if original != TESTS_PASSED:
        return Result(mutant, UNSOUND, 1, spent, name, said)
    return Result(mutant, FOUND, 1, spent, name, said)


def _play(history: str, seconds: float, path: str) -> tuple[int, str]:
    """The exit status of pytest, and its tests' complaints."""
    checkout = source_root("strandline_proof").parent
    plugins = ("-p", "no:cacheprovider", "-p", complaints.__name__)
    options = ("-q", "-x", *plugins, "--no-header", "--tb=short")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, history],
            cwd=checkout,
            env=_in_whole() | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + START_S,
        )
    except subprocess.TimeoutExpired:
        return DOES_NOT_END, f"{history} does not end"
    return done.returncode, complaints.found_in(done.stdout)


def _in_whole() -> dict[str, str]:
    """This environment without the settings that have a run take a part of the tests."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TEST_")}
    return kept | {"TEST_EXAMPLES": "1"}


def _work(mutant: Mutant, bounds: Bounds, root: Path | None) -> dict[str, Any]:
    """The worker's answer; its process ends in any case."""
    which = ORDINARY if bounds.ordinary else OWN
    arguments = [mutant.name, which, bounds.first, bounds.seeds, bounds.seconds]
    if root is not None:
        arguments.append(str(root))
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
            timeout=bounds.seconds + START_S,
        )
    except subprocess.TimeoutExpired:
        spent = round(time.monotonic() - start, 1)
        return {"status": HANGS, "runs": 0, "seconds": spent, "why": "a run does not end"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"status": BAD_PATCH, "runs": 0, "seconds": 0.0, "why": last[0]}
    document: dict[str, Any] = json.loads(done.stdout)
    return document
