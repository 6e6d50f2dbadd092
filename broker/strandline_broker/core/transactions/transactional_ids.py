"""The rules for the text of a transactional id."""

from __future__ import annotations

from typing import Final

from strandline_proto.errors import InvalidRequest

TEXT_BYTES_MAX: Final = 32_767
"""Length limit of an id: the key of its record has two bytes for the length."""


def check_transactional_id(transactional_id: str) -> None:
    """Raises InvalidRequest for an id that no record could hold."""
    if transactional_id == "":
        raise InvalidRequest("the transactional id is empty; choose a name for each producer")
    size = len(transactional_id.encode("utf-8", "surrogatepass"))
    if size > TEXT_BYTES_MAX:
        raise InvalidRequest(
            f"the transactional id {transactional_id[:40]!r}... has {size} bytes;"
            f" {TEXT_BYTES_MAX} are the most"
        )
