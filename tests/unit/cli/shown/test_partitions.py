"""Partitions in words: `TOPIC:P`, and many of them in a short text."""

import pytest

from strandline_cli.shown.partitions import partition_text, partitions_text, ranges


def test_one_partition_has_one_spelling() -> None:
    assert partition_text("orders", 3) == "orders:3"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([0, 1, 2, 3, 7, 9, 10], "0-3,7,9-10")],
)
def test_neighbours_are_a_range(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_partitions_are_sorted_within_their_topic() -> None:
    assert partitions_text([("b", 2), ("a", 0), ("b", 0), ("b", 1)]) == "b:0-2 a:0"


def test_a_long_list_is_cut_and_says_so() -> None:
    odd = [("odd", number) for number in range(1, 101, 2)]
    assert partitions_text(odd) == "odd:1,3,5,7,9,11,13,15,..."
    many = [(f"t{number}", 0) for number in range(7)]
    assert partitions_text(many) == "t0:0 t1:0 t2:0 t3:0 t4:0 and 2 more topics"
    assert partitions_text(many[:6]) == "t0:0 t1:0 t2:0 t3:0 t4:0 and 1 more topic"
