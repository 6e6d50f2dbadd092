"""A pytest plugin that prints each failing test's complaint in lines of its own.

The output of pytest looks different where a task group has wrapped an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_MARK: Final = "complaint: "
_complaints: list[str] = []


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None:
        _complaints.extend(map(_in_one_line, _leaves(call.excinfo.value)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for complaint in _complaints:
        terminalreporter.write_line(_MARK + complaint)


def found_in(output: str) -> str:
    """The complaint of a run with this plugin; `output` is everything that the run has written."""
    lines = output.splitlines()
    return " ".join(line.removeprefix(_MARK) for line in lines if line.startswith(_MARK))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _in_one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
