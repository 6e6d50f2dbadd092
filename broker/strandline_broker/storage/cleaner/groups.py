"""The choice of neighbouring segments that a cleaning merges into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from strandline_broker.storage.segment.offset_index import RELATIVE_MAX
from strandline_broker.storage.segment.time_index import ENTRY
from strandline_proto.batch import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_BYTES_MAX: Final = ENTRY.size
"""Size of the larger of the two kinds of index entries."""


class Groupable(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def size(self) -> int: ...


Group = TypeVar("Group", bound=Groupable)


def groups_of(
    segments: Sequence[Group], *, segment_bytes: int, index_bytes: int, index_interval: int
) -> list[tuple[Group, ...]]:
    """Groups of neighbours that become one segment, within the limits of size, index and relative
    offsets.

    Sizes are those before the cleaning, so the result fits as well. A segment that alone exceeds a
    limit is a group of its own.
    """
    groups: list[list[Group]] = []
    size = index = 0
    for segment in segments:
        entries = segment.size // max(index_interval, HEADER_SIZE) + 2
        size += segment.size
        index += entries * ENTRY_BYTES_MAX
        if (
            groups
            and size <= segment_bytes
            and index <= index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index = segment.size, entries * ENTRY_BYTES_MAX
    return [tuple(group) for group in groups]
