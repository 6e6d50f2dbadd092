"""Guards: which answers of a coordinator still count when the batch is appended."""

from __future__ import annotations

from itertools import permutations, product
from typing import NamedTuple

import pytest

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.core.replication.verification import Guard, Guards
from strandline_proto.batch import SEQUENCE_MAX
from strandline_proto.errors import InvalidTxnState, OutOfOrderSequenceNumber
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId

PID = 7
EPOCH = 5


class Appended(NamedTuple):
    epoch: int


class Marked(NamedTuple):
    epoch: int
    version: int


def marker(epoch: int, version: int, producer_id: int = PID) -> EndMarker:
    ids = ProducerId(producer_id), ProducerEpoch(epoch)
    return EndMarker(*ids, True, LeaderEpoch(3), version)


def take(guards: Guards, *, sequence: int = 0, version: int = 2, epoch: int = EPOCH) -> Guard:
    return guards.take(PID, epoch, sequence, raises_epoch=version == 2)


def happen(guards: Guards, event: Appended | Marked) -> None:
    if isinstance(event, Appended):
        guards.on_append(PID, event.epoch)
    else:
        guards.on_marker(marker(*event))


EVENTS: tuple[Appended | Marked, ...] = (
    *(Appended(EPOCH + by) for by in (-1, 0, 1)),
    *(Marked(EPOCH + by, version) for by in (-1, 0, 1) for version in (1, 2)),
)
VOIDING: dict[int, set[Appended | Marked]] = {
    1: {
        Appended(EPOCH),
        Appended(EPOCH + 1),
        *(event for event in EVENTS[3:] if event.epoch >= EPOCH),
    },
    2: {
        Appended(EPOCH),
        Appended(EPOCH + 1),
        Marked(EPOCH, 1),  # one of both is without an epoch of its own
        Marked(EPOCH + 1, 1),
        Marked(EPOCH + 1, 2),
    },
}
"""What voids a guard of this transaction version and of EPOCH."""


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_needs_its_own_guard_in_every_order_of_events(version: int) -> None:
    """I-158: the question, up to three events in each order, and the append."""
    for count in (1, 2, 3):
        for events, asked_at in product(permutations(EVENTS, count), range(count + 1)):
            guards = Guards()
            for event in events[:asked_at]:
                happen(guards, event)
            guard = take(guards, version=version)
            for event in events[asked_at:]:
                happen(guards, event)
            is_void = not VOIDING[version].isdisjoint(events[asked_at:])
            assert guards.is_current(guard) is not is_void, (events, asked_at)
            if is_void:
                with pytest.raises(InvalidTxnState):
                    guards.check(guard, 0)
            else:
                guards.check(guard, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_later_guard_is_no_substitute_for_a_voided_one(version: int) -> None:
    """P-106: a guard is an object, not a flag."""
    guards = Guards()
    before = take(guards, version=version)
    guards.on_marker(marker(EPOCH + 1, 2))
    now = take(guards, version=version)
    assert now is not before
    guards.check(now, 0)
    with pytest.raises(InvalidTxnState, match="producer 7 in epoch 5 ended before"):
        guards.check(before, 0)


def test_the_voided_guards_are_returned() -> None:
    guards = Guards()
    old, same, later = (take(guards, epoch=EPOCH + by, version=1) for by in (-1, 0, 1))
    assert guards.on_marker(marker(EPOCH, 1, producer_id=8)) == []
    assert guards.on_marker(marker(EPOCH, 1)) == [old, same]
    assert (guards.is_current(later), len(guards)) == (True, 1)


def test_batches_share_a_guard_by_producer_epoch_and_kind() -> None:
    guards = Guards()
    first = take(guards)
    assert take(guards) is first
    others = (
        take(guards, epoch=EPOCH + 1),
        take(guards, version=1),
        guards.take(8, EPOCH, 0, raises_epoch=True),
    )
    assert len({id(first), *map(id, others)}) == len(guards) == 4
    assert guards.find(PID, EPOCH, raises_epoch=True) is first
    assert guards.find(PID, EPOCH - 1, raises_epoch=True) is None


def test_the_lowest_sequence_is_appended_first() -> None:
    """P-127: the lowest one, not the first that arrived."""
    guards = Guards()
    guard = take(guards, sequence=10)
    guards.check(guard, 10)
    assert take(guards, sequence=20) is guard
    assert take(guards, sequence=4) is guard
    for sequence in (10, 20, 5):
        with pytest.raises(OutOfOrderSequenceNumber, match="sequence 4 is not appended yet"):
            guards.check(guard, sequence)
    guards.check(guard, 4)


def test_sequences_are_compared_over_the_wrap() -> None:
    guards = Guards()
    guard = take(guards, sequence=0)
    take(guards, sequence=SEQUENCE_MAX)
    guards.check(guard, SEQUENCE_MAX)
    with pytest.raises(OutOfOrderSequenceNumber):
        guards.check(guard, 0)


def test_a_dropped_guard_leaves_nothing() -> None:
    guards = Guards()
    guard, other = take(guards), take(guards, version=1)
    guards.drop(guard)
    assert (guards.is_current(guard), guards.is_current(other)) == (False, True)
    guards.drop(guard)
    assert PID in guards
    guards.drop(other)
    assert (PID in guards, len(guards)) == (False, 0)
