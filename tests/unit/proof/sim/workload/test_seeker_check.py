"""What a reader that goes where it likes was told of times, against what was sent."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_chaos.history import History
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.seeker import Lookup, Seeker
from strandline_proof.sim.workload.seeker_check import check_sought
from strandline_proof.sim.workload.work_clients import Stamps

TIMES = {0: 100, 1: 300, 2: 200, 3: 400}
"""Of the records at these offsets, whose values are ten times as much."""


def judge(
    *lookups: Lookup,
    read: dict[tuple[int, int], int] | None = None,
    unread: Sequence[int] = (),
    acknowledged: Mapping[int, int | None] | None = None,
    **how: Any,
) -> None:
    """`unread`: offsets that nobody else reads; `acknowledged`: by offset, what its sender is
    told.
    """
    world: Any = SimpleNamespace(partitions=1)
    stamps, history = Stamps(world), History(None, lambda: 0)
    for offset, time_ms in TIMES.items():
        stamps.on_send(0, offset * 10, None, time_ms)
    for offset, told in (acknowledged or {}).items():
        value = offset * 10
        history.sent(2, history.invoke_send(2, 0, value), 0, value, told)
    history.polled(1, history.invoke_poll(1), {0: [(o, o * 10) for o in TIMES if o not in unread]})
    seeker = Seeker(world, Counter())
    seeker.lookups += lookups
    seeker.read |= read or {}
    settings = {"excused": (), "removed": {}} | how
    check_sought(seeker, history.events, stamps=stamps, **settings)


def asked(
    time_ms: int, offset: int | None, said_ms: int, *, end: int = 4, removed: int = 0
) -> Lookup:
    return Lookup(0, time_ms, end, removed, offset, said_ms)


def test_right_answers_are_right() -> None:
    judge(
        asked(100, 0, 100),
        asked(101, 1, 300),
        asked(400, 3, 400),
        asked(401, None, -1),
        asked(250, None, -1, end=1),
        asked(150, 2, 200, removed=2),
        read={(0, 2): 20},
    )


@pytest.mark.parametrize(
    ("lookup", "why"),
    [
        (asked(100, 1, 300), "is at offset 0, and is said to be at offset 1"),
        (asked(150, 2, 200), "is at offset 1, and is said to be at offset 2"),
        (asked(150, 1, 301), "of time 301, and there is one of 300"),
        (asked(150, 0, 100), "of time 100, and there is one of 100"),
        (asked(401, 9, 500), "of time 500, and there is one of None"),
        (asked(400, None, -1), "is at offset 3, and is said to be not there"),
    ],
)
def test_a_wrong_answer_is_told(lookup: Lookup, why: str) -> None:
    with pytest.raises(Violation, match=why):
        judge(lookup)
    judge(lookup, excused={0})


def test_what_is_deleted_unread_stands_where_its_sender_was_told() -> None:
    unread: dict[str, Any] = {"unread": (0, 1), "acknowledged": {0: 0, 1: 1}, "removed": {0: 2}}
    judge(asked(100, 0, 100), asked(101, 1, 300), **unread)
    with pytest.raises(Violation, match="is at offset 0, and is said to be at offset 1"):
        judge(asked(100, 1, 300), **unread)
    with pytest.raises(Violation, match="of time 100, and there is one of 300"):
        judge(asked(90, 1, 100), **(unread | {"acknowledged": {1: 1}}))


def test_what_is_deleted_before_anybody_is_told_of_it_has_a_time_that_nothing_else_has() -> None:
    unread: dict[str, Any] = {"unread": (0, 1), "acknowledged": {0: 0, 1: None}}
    judge(asked(101, 1, 300), **unread, removed={0: 2})
    for time_ms, offset, said_ms, removed in (
        (101, 1, 300, 1),  # it cannot have been deleted
        (350, 1, 300, 2),
        (101, 1, 301, 2),
        (101, 1, 400, 2),
    ):
        with pytest.raises(Violation, match="there is one of"):
            judge(asked(time_ms, offset, said_ms), **unread, removed={0: removed})


@pytest.mark.parametrize("read", [{(0, 2): 30}, {(0, 4): 40}])
def test_what_nobody_else_reads_is_told(read: dict[tuple[int, int], int]) -> None:
    with pytest.raises(Violation, match="others read"):
        judge(read=read)
    judge(read=read, removed={0: 5})
