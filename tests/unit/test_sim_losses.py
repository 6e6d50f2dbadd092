"""I-53: a loss is looked for where the log that stands for all replicas still begins."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from strandline_broker.core.controller.state import ControllerState
from strandline_chaos.sim.disk import SimDisk
from strandline_chaos.sim.oracles.committed import Committed
from strandline_chaos.sim.oracles.log_view import Entry, LogView
from strandline_chaos.sim.oracles.losses import check_reported
from strandline_chaos.sim.oracles.violation import Violation

OLD, NEW = Entry(1, 2, 0, 7, (0, 0)), Entry(1, 2, 1, 8, (0, 0))
"""What a deposed leader has appended at offset 1, and what was committed there."""
LAST = Entry(2, 3, 1, 9, (1, 1))


def check(start: int) -> None:
    ghost = Committed(0, min_insync=2, always=False)
    ghost.entries = [Entry(0, 1, 0, 6, None), NEW, LAST]
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), "/data/t-0")
    view.entries = [ghost.entries[0], OLD, LAST]
    check_reported(ControllerState(), (bytes(16), 0), ghost, view, start, Counter())


def test_a_loss_that_nobody_reports() -> None:
    with pytest.raises(Violation, match="committed offset 1 is lost"):
        check(start=1)


def test_what_was_deleted_is_not_lost() -> None:
    check(start=2)
