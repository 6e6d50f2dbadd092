"""A flush promises no more than it has made durable, whatever happens while its ticket is taken.

An append in the disk pool may come between any two reads of the event loop. So each test asks for a
ticket once for every step of taking it, lets the append happen at that step, and then takes the
power: what counted as durable must be there.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from strandline_broker.storage.log.log import FlushTicket, Log, take_ticket
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from support.storage import SMALL, Store

VALUE = b"x" * 200
FITS = 3
"""Values of that size, each in a batch of its own, that a segment of SMALL has room for."""
STEPS_MIN = 20
"""A ticket has more steps. Fewer mean that the interpreter did not show them."""


def begun(values: int) -> tuple[SimDisk, Store]:
    disk = SimDisk(random.Random(1), lambda: 0.0)
    store = Store(Path("/data"), SMALL, fs=SimFs(disk))
    store.flush()
    store.checkpoint()
    for _ in range(values):
        store.append(VALUE)
    return disk, store


def ticket_with(log: Log, at: int, between: Callable[[], object]) -> tuple[FlushTicket, bool]:
    """The ticket, with `between` done before its step `at`; whether there was such a step."""
    steps = 0

    def step(_: FrameType, event: str, __: Any) -> Any:
        nonlocal steps
        if event == "opcode":
            steps += 1
            if steps == at:
                between()
        return step

    def enter(frame: FrameType, _: str, __: Any) -> Any:
        if frame.f_code is not take_ticket.__code__:
            return None
        frame.f_trace = step  # From Python 3.13 on, opcodes are traced only if this is set before.
        frame.f_trace_opcodes = True
        return step

    before = sys.gettrace()
    # Python 3.12 traces opcodes only if a frame has asked for them before the trace begins.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(enter)
    try:
        ticket = log.flush_snapshot()
    finally:
        sys.settrace(before)
    return ticket, steps >= at


@pytest.mark.parametrize("values", range(1, FITS + 1), ids="{} before".format)
@pytest.mark.parametrize("more", [1, FITS + 1], ids="{} between".format)
def test_what_a_flush_counts_as_durable_survives_a_loss_of_power(values: int, more: int) -> None:
    rolled = set()
    for at in range(1, 10_000):
        disk, store = begun(values)
        log = store.log

        def between(store: Store = store) -> None:
            for _ in range(more):
                store.append(VALUE)

        ticket, was_reached = ticket_with(log, at, between)
        if not was_reached:
            break
        ticket.run()
        log.flushed(ticket)
        promised, length = log.durable_offset, log.log_end_offset
        assert promised >= values, at
        rolled.add(len(log.segments) > 1)
        store.kill()
        disk.lose_power(survival=0.0)
        found = Store(Path("/data"), SMALL, fs=SimFs(disk), found=True).log
        assert promised <= found.log_end_offset <= length, at
    assert at > STEPS_MIN
    assert rolled == {values + more > FITS}, "a segment was begun between, or none needed to be"


def test_a_cut_at_any_step_makes_the_ticket_void_or_is_in_it() -> None:
    for at in range(1, 10_000):
        _, store = begun(2 * FITS)
        ticket, was_reached = ticket_with(store.log, at, partial(store.log.truncate_to, 2))
        if not was_reached:
            break
        for _ in range(FITS):
            store.append(VALUE)
        ticket.run()
        store.log.flushed(ticket)
        assert store.log.durable_offset <= 2, at
    assert at > STEPS_MIN
