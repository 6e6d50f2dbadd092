"""SIGTERM and SIGHUP end a long command as Ctrl-C does, so that it stops the processes that it
started.

A signal that is ignored (SIGHUP under nohup) stays ignored.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt; a terminal that closes may send both."""
    with _restored(_SIGNALS):
        for number in _heeded():
            signal.signal(number, _interrupt)
        yield


@contextmanager
def signals_cancel_task() -> Iterator[None]:
    """Signals cancel the task that runs now, as Ctrl-C cancels the main one."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = _heeded()
    for number in numbers:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals do not interrupt this block, not even a second Ctrl-C. Use it for work with a bounded
    time, such as an orderly stop of a cluster.
    """
    numbers = (signal.SIGINT, *_SIGNALS)
    with _restored(numbers):
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        yield


def _heeded() -> list[signal.Signals]:
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def _restored(numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    with contextlib.ExitStack() as undo:
        for number in numbers:
            undo.callback(signal.signal, number, signal.getsignal(number))
        yield


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
