"""The hash of group ids against the values of a Java virtual machine."""

import pytest

from strandline_proto.java_hash import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group-1", 293427299),
        ("polygenelubricants", -(2**31)),
        ("DESIGNING WORKHOUSES", -(2**31)),
        ("\N{GRINNING FACE}", 1772899),
        ("\ud83d", 0xD83D),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_hash_goes_over_utf_16_units_and_not_over_code_points() -> None:
    assert java_hash("\N{GRINNING FACE}") == 31 * 0xD83D + 0xDE00 != 0x1F600


@pytest.mark.parametrize(
    ("coordinated_id", "partitions", "expected"),
    [
        ("group-1", 3, 2),
        ("tx-a", 3, 0),
        ("tx-b", 3, 1),
        ("polygenelubricants", 3, 0),
        ("polygenelubricants", 50, 0),
        ("\N{GRINNING FACE}", 50, 49),
    ],
)
def test_an_id_has_the_partition_that_kafka_gives_it(
    coordinated_id: str, partitions: int, expected: int
) -> None:
    assert partition_for(coordinated_id, partitions) == expected


def test_a_negative_hash_goes_by_its_absolute_value() -> None:
    assert java_hash("polygenelubricantz") == -(2**31) + 7
    assert partition_for("polygenelubricantz", 50) == (2**31 - 7) % 50
