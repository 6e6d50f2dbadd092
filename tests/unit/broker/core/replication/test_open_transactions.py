"""The transactions that hold back the last stable offset."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.core.replication.open_transactions import NONE_OPEN, OpenTransactions
from support.examples import examples

PRODUCERS = st.integers(1, 4)


def test_the_oldest_open_transaction_holds_back_the_others() -> None:
    known = OpenTransactions()
    assert known.first_unstable == NONE_OPEN
    known.begin(1, 10)
    known.begin(2, 12)
    assert known.first_unstable == 10
    assert list(known.open.items()) == [(1, 10), (2, 12)]


def test_an_ended_transaction_counts_until_its_marker_is_committed() -> None:
    """P-115."""
    known = OpenTransactions()
    known.begin(1, 10)
    known.end(1, 14)
    known.on_committed(14)
    assert known.first_unstable == 10
    known.on_committed(15)
    assert known.first_unstable == NONE_OPEN


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    known = OpenTransactions()
    known.begin(1, 10)
    known.end(2, 12)
    known.on_committed(100)
    assert known.first_unstable == 10


def test_one_that_ends_later_and_began_earlier_holds_back_for_longer() -> None:
    known = OpenTransactions()
    known.begin(1, 10)
    known.begin(2, 12)
    known.end(2, 14)
    known.end(1, 16)
    assert list(known.ended) == [(10, 16)]
    known.on_committed(16)
    assert known.first_unstable == 10


def test_what_a_start_knows_to_be_committed_is_not_kept() -> None:
    known = OpenTransactions([(2, 7), (1, 3)], [(1, 5), (2, 12)], high_watermark=10)
    assert (list(known.open), list(known.ended)) == ([1, 2], [(2, 12)])
    known = OpenTransactions([(2, 7), (1, 3)], high_watermark=10)
    known.end(1, 9)
    assert (known.first_unstable, list(known.ended)) == (7, [])


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), PRODUCERS),
            st.tuples(st.just("end"), PRODUCERS),
            st.tuples(st.just("commit"), st.integers(0, 5)),
        ),
        max_size=40,
    )
)
def test_the_first_unstable_offset_is_recomputed(steps: list[tuple[str, int]]) -> None:
    """I-152, by a list of all transactions."""
    known = OpenTransactions()
    begun: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    offset = high_watermark = 0
    for what, number in steps:
        if what == "commit":
            high_watermark = min(high_watermark + number, offset)
            known.on_committed(high_watermark)
        elif what == "begin":
            if number not in begun:
                begun[number] = offset
                known.begin(number, offset)
            offset += 1
        else:
            known.end(number, offset)
            if number in begun:
                ended.append((begun.pop(number), offset))
            offset += 1
        unstable = [*begun.values(), *(first for first, at in ended if at >= high_watermark)]
        known.on_committed(high_watermark)
        assert known.first_unstable == min(unstable, default=NONE_OPEN)
        again = OpenTransactions(begun.items(), ended, high_watermark=high_watermark)
        assert again.first_unstable == known.first_unstable
