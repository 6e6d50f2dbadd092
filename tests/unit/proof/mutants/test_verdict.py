"""What is a find of a planted bug, and what is not."""

from types import SimpleNamespace

import pytest

from strandline_proof.mutants import verdict
from strandline_proof.mutants.verdict import Verdict, of_error, of_run
from strandline_proof.sim.loop.loop import Deadlock, Livelock
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.plan.plan import Plan
from strandline_proof.sim.run.result import RunResult
from strandline_proof.sim.topology.topology import Topology


def run(failure: BaseException | None, *logged: BaseException) -> RunResult:
    """Of a run that ended so, while nodes have logged errors."""
    lines = [SimpleNamespace(fields={"exc_info": error}) for error in logged]
    return RunResult(
        Plan(1, Topology(), ()), failure=failure, timeline=SimpleNamespace(lines=lines)
    )


def assertion_of(module: str) -> AssertionError:
    """As it is when a line of that module has raised it."""
    names: dict[str, object] = {"__name__": module}
    try:
        exec("def broken():\n    raise AssertionError('a != b')", names)
        names["broken"]()  # type: ignore[operator]
    except AssertionError as error:
        return error
    raise AssertionError


EXIT = Violation("exit", "broker-1 stopped: OSError")


def test_what_an_oracle_contradicts_is_found_by_its_rule() -> None:
    assert of_run(run(Violation("I-9", "w")), []) == Verdict(verdict.FOUND, "I-9", "w")
    assert of_run(run(Violation("history", "1 lost")), []).by == "history"


def test_an_assertion_of_the_servers_is_a_find() -> None:
    error = assertion_of("strandline_broker.core.replication.leader")
    for found in (of_run(run(error), []), of_run(run(EXIT, error), []), of_run(run(EXIT), [error])):
        assert (found.status, found.by) == (verdict.FOUND, "assertion")
    group = ExceptionGroup("tasks", [OSError(), error])
    assert of_run(run(Violation("uncaught", "a task"), group), []).status == verdict.FOUND


@pytest.mark.parametrize("module", ["strandline_proof.sim.loop.loop", "strandline_chaos.checkers"])
def test_an_assertion_of_the_proof_is_none(module: str) -> None:
    error = assertion_of(module)
    assert of_run(run(error), []).status == verdict.SIMULATOR
    assert of_run(run(EXIT, error), []).status == verdict.CRASHES


@pytest.mark.parametrize("kind", ["exit", "uncaught"])
def test_a_process_or_a_task_that_ends_by_itself_is_no_find(kind: str) -> None:
    failure = Violation(kind, "broker-1 stopped: CannotStart")
    assert of_run(run(failure, OSError("no")), [ValueError("no")]) == Verdict(
        verdict.CRASHES, why="broker-1 stopped: CannotStart"
    )


@pytest.mark.parametrize("failure", [Deadlock("nothing is due"), Livelock("no end")])
def test_a_run_without_an_end_is_no_find(failure: BaseException) -> None:
    assert of_run(run(failure), []).status == verdict.STUCK


def test_an_error_of_the_simulator_is_no_find() -> None:
    assert of_error(KeyError("x")) == Verdict(verdict.SIMULATOR, why="KeyError: 'x'")


def test_a_mistake_in_the_patch_is_none_whatever_else_is_broken() -> None:
    mistake = NameError("no_such_name")
    assert of_run(run(Violation("I-9", "w"), mistake), []).status == verdict.BAD_PATCH
    assert of_run(run(None), [mistake]).status == verdict.BAD_PATCH
    assert of_error(mistake).status == verdict.BAD_PATCH


def test_a_sound_run_has_not_found_it() -> None:
    assert of_run(run(None, OSError("a disk")), [AssertionError()]) == Verdict(verdict.SURVIVED)
