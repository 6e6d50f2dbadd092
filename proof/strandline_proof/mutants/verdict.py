"""Verdicts on runs with a planted bug.

A bug is found if an oracle, or an assertion of the code that has the bug, contradicts the run.
Every other failure has a verdict of its own and is no find: it shows that something is broken, but
no check has said what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.loop.loop import Deadlock, Livelock
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.sim.run.result import RunResult

FOUND: Final = "found"
SURVIVED: Final = "survived"
CRASHES: Final = "crashes"
"""A process or a task ended by another error than an assertion."""
STUCK: Final = "gets stuck"
"""Nothing was left to do, or the run did not end."""
SIMULATOR: Final = "breaks the simulator"
BAD_PATCH: Final = "bad patch"

MISTAKES: Final = (ImportError, TypeError, NameError, AttributeError, SyntaxError)
"""Errors of a bad patch. One of them is never a detection."""

_ENDS: Final = ("exit", "uncaught")
"""The simulator's names for the unexplained end of a process, or of a task."""
_VERDICTS: Final = (Violation, Deadlock, Livelock)
_PROOF: Final = ("strandline_proof", "strandline_chaos")
"""Packages that judge: a failed assertion of theirs is their own fault."""


@dataclass(frozen=True, slots=True)
class Verdict:
    status: str
    by: str = ""
    """The number of the invariant, `history` for the checkers of histories, or `assertion`."""
    why: str = ""


def leaves(error: BaseException | None) -> Iterator[BaseException]:
    """The errors inside groups, with their causes."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from leaves(inner)
        else:
            yield error
        error = error.__cause__


def of_run(result: RunResult, in_calls: list[BaseException]) -> Verdict:
    """The verdict on a run; `in_calls`: the errors that handlers of calls have raised."""
    raised = [*in_calls, *_told(result)]
    if mistake := next((error for error in raised if isinstance(error, MISTAKES)), None):
        return _bad_patch(mistake)
    failure = result.failure
    if failure is None:
        return Verdict(SURVIVED)
    if isinstance(failure, Violation) and failure.invariant not in _ENDS:
        return Verdict(FOUND, failure.invariant, result.what)
    if any(map(_is_assertion, raised)):
        return Verdict(FOUND, "assertion", result.what)
    if isinstance(failure, Violation):
        return Verdict(CRASHES, why=result.what)
    if isinstance(failure, Deadlock | Livelock):
        return Verdict(STUCK, why=f"{type(failure).__name__}: {failure}")
    return of_error(failure)


def of_error(error: BaseException) -> Verdict:
    """The verdict on a run that the simulator could not continue."""
    if isinstance(error, MISTAKES):
        return _bad_patch(error)
    return Verdict(SIMULATOR, why=f"{type(error).__name__}: {error}")


def _bad_patch(error: BaseException) -> Verdict:
    return Verdict(BAD_PATCH, why=f"{type(error).__name__}: {error}")


def _told(result: RunResult) -> Iterator[BaseException]:
    """The errors that ended the run and its nodes."""
    yield from leaves(result.failure)
    if result.timeline is not None:
        for line in result.timeline.lines:
            error = line.fields.get("exc_info")
            if isinstance(error, BaseException):
                yield from leaves(error)


def _is_assertion(error: BaseException) -> bool:
    """True if an assertion of the servers' or clients' own code has failed."""
    at = error.__traceback__
    if not isinstance(error, AssertionError) or isinstance(error, _VERDICTS) or at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    module = str(at.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in _PROOF
