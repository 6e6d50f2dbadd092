"""Which brokers are restarted at healing."""

from __future__ import annotations

import random

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.plan.faults import may_be_cut

LIMIT = "/data/t-0/checkpoint-limit-0.7.tmp"


@pytest.mark.parametrize(
    ("no_room", "may_be"),
    [
        ([LIMIT], False),
        ([LIMIT, "/data/t-1/leader-epoch-checkpoint.8.tmp"], False),
        ([LIMIT, "/data/t-0/leader-epoch-checkpoint.8.tmp"], True),
        ([], True),
    ],
)
def test_a_truncation_without_room_to_begin_has_cut_nothing(
    no_room: list[str], may_be: bool
) -> None:
    disk = SimDisk(random.Random(0), lambda: 0.0)
    disk.capacity = 0
    for path in no_room:
        with pytest.raises(OSError, match="No space"):
            disk.room_for(1, path)
    assert may_be_cut(disk, "/data/t-0") == may_be
