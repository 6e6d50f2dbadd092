"""Which neighbours a cleaning merges into one segment."""

from typing import NamedTuple

from strandline_broker.storage.cleaner.groups import groups_of


class Some(NamedTuple):
    base_offset: int
    end_offset: int
    size: int = 100


def grouped(*segments: Some, **limits: int) -> list[list[int]]:
    given = {"segment_bytes": 1000, "index_bytes": 10_000, "index_interval": 100} | limits
    return [[s.base_offset for s in group] for group in groups_of(segments, **given)]


def test_neighbours_are_merged_up_to_the_size_of_a_segment() -> None:
    segments = [Some(i, i + 1, size=400) for i in range(5)]
    assert grouped(*segments) == [[0, 1], [2, 3], [4]]
    assert grouped(*segments, segment_bytes=1200) == [[0, 1, 2], [3, 4]]
    assert grouped(*segments, segment_bytes=399) == [[0], [1], [2], [3], [4]]


def test_a_merged_segment_has_room_in_its_index() -> None:
    segments = [Some(i, i + 1, size=100) for i in range(4)]
    # 100 bytes make at most 3 entries of 12 bytes.
    assert grouped(*segments, index_bytes=72) == [[0, 1], [2, 3]]
    assert grouped(*segments, index_bytes=71) == [[0], [1], [2], [3]]
    # With an interval below a header's size a batch has at most one entry.
    assert grouped(*segments, index_bytes=72, index_interval=0) == [[0, 1], [2, 3]]


def test_a_merged_segment_has_no_relative_offset_beyond_31_bits() -> None:
    segments = [Some(0, 10), Some(10, 2**31), Some(2**31, 2**31 + 1)]
    assert grouped(*segments) == [[0, 10], [2**31]]


def test_nothing_makes_no_group() -> None:
    assert grouped() == []
