"""An id that no record could hold is refused, with its size."""

import pytest

from strandline_broker.core.groups.group_ids import (
    TEXT_BYTES_MAX,
    check_group_id,
    check_new_group_id,
)
from strandline_proto.errors import InvalidGroupId


def test_an_id_may_be_as_long_as_a_record_can_hold() -> None:
    check_group_id("x" * TEXT_BYTES_MAX)


@pytest.mark.parametrize(
    ("group_id", "why"),
    [("", "is empty"), ("é" * 16_384, r"has 32768 bytes; 32767 are the most")],
)
def test_another_is_refused(group_id: str, why: str) -> None:
    with pytest.raises(InvalidGroupId, match=why):
        check_group_id(group_id)


def test_a_new_group_has_an_id_that_can_be_printed() -> None:
    check_new_group_id("a group")
    with pytest.raises(InvalidGroupId, match=r"'a\\nb' has a character that cannot be printed"):
        check_new_group_id("a\nb")
    check_group_id("a\nb")


def test_a_new_group_has_an_id_that_a_record_can_hold() -> None:
    with pytest.raises(InvalidGroupId, match="is empty"):
        check_new_group_id("")
