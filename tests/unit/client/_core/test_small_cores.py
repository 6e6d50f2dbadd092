"""The client's small machines: fetch sessions, sticky partitions, back-off, key hash."""

from __future__ import annotations

from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from strandline._core.backoff import Backoff
from strandline._core.fetch_session import FetchSession, FetchTarget
from strandline._core.in_parts import in_parts
from strandline._core.sticky import StickyPartition
from strandline_proto.partitioner import murmur2, partition_for

A, B = (b"a" * 16, 0), (b"b" * 16, 1)


def target(offset: int) -> FetchTarget:
    return FetchTarget(offset, 1, -1, 100)


def test_a_session_names_only_what_changed() -> None:
    session = FetchSession()
    first = session.next_request({A: target(0), B: target(0)})
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [key for key, _ in first.changed] == [A, B]
    session.on_answer(77)
    second = session.next_request({A: target(5), B: target(0)})
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert second.changed == [(A, target(5))]
    third = session.next_request({A: target(5)})
    assert (third.changed, third.forgotten, third.session_epoch) == ([], [B], 2)
    fourth = session.next_request({A: target(5), B: target(0)})
    assert fourth.changed == [(B, target(0))]


def name_of(partition: int) -> str:
    return f"orders:{partition}"


def test_a_sticky_partition_is_left_after_a_batch_of_bytes() -> None:
    sticky: StickyPartition[str] = StickyPartition(100)
    assert sticky.current is None
    assert sticky.choose([0, 1, 2], lambda p: 0, (0.5, 0.9), name_of) == "orders:1"
    sticky.spend(99)
    assert sticky.current == "orders:1"
    sticky.spend(1)
    assert sticky.current is None
    sticky.choose([0, 1, 2], lambda p: 0, (0.5, 0.9), name_of)
    sticky.spend(99)
    assert sticky.current == "orders:1", "the next partition gets a whole batch's worth again"


def test_the_less_loaded_of_two_drawn_partitions_is_chosen() -> None:
    sticky: StickyPartition[str] = StickyPartition(100)
    load = {0: 50, 1: 10, 2: 0}
    assert sticky.choose([0, 1, 2], load.__getitem__, (0.0, 0.5), name_of) == "orders:1"
    assert sticky.choose([0, 1, 2], load.__getitem__, (0.5, 0.0), name_of) == "orders:1"
    sticky.rotate()
    assert sticky.current is None


def test_waits_are_short_at_first_and_bounded_later() -> None:
    backoff = Backoff(20, 1000)
    waits = [backoff.next_ms(0.0) for _ in range(20)]
    assert waits[:6] == [20] * 6
    assert waits[6] == 40
    assert waits[-1] == 1000
    assert backoff.next_ms(0.99) == 1000
    backoff.reset()
    assert backoff.next_ms(0.5) == 30


def test_the_key_hash_is_javas() -> None:
    # Published examples of the Java client's hash, as unsigned numbers.
    assert murmur2(b"21") == 2**32 - 973932308
    assert murmur2(b"foobar") == 2**32 - 790332482
    assert murmur2(b"abc") == 479470107
    assert partition_for(b"abc", 7) == 479470107 % 7


@given(st.binary(max_size=600))
def test_the_key_hash_agrees_with_another_implementation(key: bytes) -> None:
    assert murmur2(key) == reference(key)
    assert partition_for(key, 12) == (reference(key) & 0x7FFFFFFF) % 12


def test_what_has_too_many_elements_goes_in_several_parts_in_its_order() -> None:
    assert list(in_parts(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_parts(range(4), 2)) == [[0, 1], [2, 3]]
    assert list(in_parts([], 2)) == []
