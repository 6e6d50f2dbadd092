"""The rules for the text of a group's id."""

from __future__ import annotations

from typing import Final

from strandline_proto.errors import InvalidGroupId

TEXT_BYTES_MAX: Final = 32_767
"""Length limit of an id: the keys of Kafka's records have two bytes for the length."""


def check_group_id(group_id: str) -> None:
    """Raise InvalidGroupId for an id that no record could hold."""
    if group_id == "":
        raise InvalidGroupId("the group id is empty")
    if len(group_id.encode()) > TEXT_BYTES_MAX:
        raise InvalidGroupId(
            f"the group id {group_id[:40]!r}... has {len(group_id.encode())} bytes;"
            f" {TEXT_BYTES_MAX} are the most"
        )


def check_new_group_id(group_id: str) -> None:
    """Raise InvalidGroupId for an id that no group may be created with."""
    check_group_id(group_id)
    if not group_id.isprintable():
        raise InvalidGroupId(f"the group id {group_id!r} has a character that cannot be printed")
