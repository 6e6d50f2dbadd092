"""The map of keys: right, bounded, and full when it says so."""

import random

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.storage.cleaner.offset_map import SLOT_BYTES, OffsetMap


def test_the_last_offset_of_each_key_is_known_and_of_no_other() -> None:
    known = OffsetMap(10 * SLOT_BYTES, 0.9)
    assert known.put_all([(b"a", 0), (b"b", 1), (b"a", 7), (b"", 9)]) is None
    assert [known.get(key) for key in (b"a", b"b", b"", b"c")] == [7, 1, 9, -1]
    assert known.keys == 3


def test_a_full_map_says_which_record_found_no_room_and_takes_known_keys_on() -> None:
    known = OffsetMap(10 * SLOT_BYTES, 0.3)
    assert known.put_all([(b"a", 0), (b"b", 1), (b"c", 2), (b"a", 3), (b"d", 4), (b"b", 5)]) == 4
    assert known.is_full
    assert [known.get(key) for key in (b"a", b"b", b"c", b"d")] == [3, 1, 2, -1]
    assert known.put_all([(b"c", 6)]) is None
    assert known.get(b"c") == 6


def test_a_map_holds_one_key_at_least_and_a_search_ends_in_a_full_one() -> None:
    known = OffsetMap(0, 0.9)
    assert known.put_all([(b"a", 0), (b"b", 1)]) == 1
    assert (known.get(b"a"), known.get(b"x")) == (0, -1)
    brim = OffsetMap(8 * SLOT_BYTES, 1.0)
    assert brim.put_all((b"%d" % i, i) for i in range(100)) == 7
    assert all(brim.get(b"%d" % i) == i for i in range(7))
    assert brim.get(b"none") == -1


@given(st.lists(st.binary(max_size=3), max_size=60), st.integers(1, 40), st.floats(0.1, 1.0))
def test_it_says_what_a_dict_would(keys: list[bytes], slots: int, load_factor: float) -> None:
    known = OffsetMap(slots * SLOT_BYTES, load_factor)
    refused = known.put_all(zip(keys, range(100), strict=False))
    taken = keys if refused is None else keys[:refused]
    expected = {key: i for i, key in enumerate(taken)}
    assert all(known.get(key) == expected.get(key, -1) for key in keys)
    assert known.keys == len(expected)


def test_its_memory_is_what_was_given() -> None:
    known = OffsetMap(1000 * SLOT_BYTES, 0.9)
    assert sum(a.itemsize * len(a) for a in (known._high, known._low, known._offsets)) == 24_000
    rng = random.Random(1)
    assert known.put_all((rng.randbytes(8), i) for i in range(2000)) == 900
