"""The first batches of producers that a leader does not know: which arrival may be the first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.core.replication.first_batches import (
    ARRIVALS_MAX,
    PRODUCERS_MAX,
    FirstBatches,
)
from strandline_proto.batch import SEQUENCE_MAX
from support.batch_headers import batch_header
from support.examples import examples

P, HERE, ELSEWHERE = 7, object(), object()


def arrivals(*sequences: int) -> list[bool]:
    found = FirstBatches()
    return [found.arrives(batch_header(P, 0, sequence), HERE) for sequence in sequences]


@pytest.mark.parametrize(
    ("sequences", "last"),
    [
        ((30, 30), True),
        ((30, 40, 50, 30), True),
        ((30, 40, 30, 40), False),  # 30 is the first, and has state then
        ((0, 30, 0, 30), False),
        ((30, 0, 30), False),
        ((30, 0, 30, 40, 0, 30), False),
        ((0, 30, 40, 0, 30, 40, 30), True),  # 0 was given up
        ((0, 30, 0, 30, 40, 40), True),
        ((SEQUENCE_MAX, 4, SEQUENCE_MAX, 4), False),
        ((SEQUENCE_MAX, 4, SEQUENCE_MAX), True),
        ((4, SEQUENCE_MAX, 4), False),
    ],
)
def test_a_batch_is_the_first_if_no_earlier_one_arrived_since(
    sequences: tuple[int, ...], last: bool
) -> None:
    assert arrivals(*sequences)[-1] is last


def test_more_batches_than_are_kept_end_with_the_earliest() -> None:
    batches = list(range(10, 10 + 2 * ARRIVALS_MAX))
    assert arrivals(*batches, *batches)[len(batches)]
    assert not any(arrivals(*batches, 0, *batches))


def test_arrivals_of_another_connection_or_epoch_do_not_count() -> None:
    found = FirstBatches()
    assert not found.arrives(batch_header(P, 0, 30), HERE)
    assert not found.arrives(batch_header(P, 0, 30), ELSEWHERE)
    assert not found.arrives(batch_header(P, 0, 30), HERE)
    assert not found.arrives(batch_header(P, 1, 30), HERE)
    assert not found.arrives(batch_header(P + 1, 1, 30), HERE)
    assert found.arrives(batch_header(P, 1, 30), HERE)


def test_a_producer_with_state_begins_again_once_it_is_forgotten() -> None:
    found = FirstBatches()
    found.arrives(batch_header(P, 0, 30), HERE)
    found.forget(P)
    found.forget(P)
    assert not found.arrives(batch_header(P, 0, 30), HERE)


def test_the_number_of_producers_is_bounded() -> None:
    found = FirstBatches()
    for producer_id in range(PRODUCERS_MAX + 1):
        found.arrives(batch_header(producer_id, 0, 30), HERE)
    assert found.arrives(batch_header(1, 0, 30), HERE)
    assert not found.arrives(batch_header(0, 0, 30), HERE), "the oldest is refused once more"


@given(st.data())
@settings(max_examples=examples(120))
def test_batches_of_one_client_are_never_accepted_before_an_earlier_one(
    data: st.DataObject,
) -> None:
    """I-59: leaders refuse for any reason, roles move, connections break, batches are given up."""
    left = [0, 10, 20, 30]
    leader, is_known, connection = FirstBatches(), False, HERE
    last = -1
    for _ in range(data.draw(st.integers(1, 12), label="rounds")):
        happens = data.draw(st.sampled_from(("none", "connection", "give up")), label="happens")
        if happens == "connection":
            connection = object()
        elif happens == "give up" and left:
            left.pop(0)
        for sequence in list(left):
            role = data.draw(st.sampled_from(("same", "same", "no leader", "new leader")))
            if role == "no leader":
                leader = FirstBatches()
                continue
            if role == "new leader":
                leader = FirstBatches()
            header = batch_header(P, 0, sequence)
            may = is_known or leader.arrives(header, connection) or sequence == 0
            refused = data.draw(st.booleans(), label="refused for another reason")
            if refused or not may or (is_known and sequence != left[0]):
                continue
            assert sequence == left[0] > last
            left.remove(sequence)
            is_known, last = True, sequence
            leader.forget(P)
