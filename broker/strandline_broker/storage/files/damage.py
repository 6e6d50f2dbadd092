"""Errors for bytes that were flushed once and differ now from what was written (I-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[str], None]
    """Takes one whole sentence for the operator; the host logs it as a warning."""


REPLICA_REMEDY: Final = (
    "put the file back from a copy; or stop the broker, move its data directory away and start it "
    "again, so that it copies its partitions from their leaders."
)
METADATA_REMEDY: Final = (
    "put the file back from a copy; the controller cannot do without a decision it has made."
)


class BadBatch(Exception):
    """The bytes at `position` of `path` are not the batch that should begin at `offset` there."""

    def __init__(self, path: str, position: int, offset: int, why: str) -> None:
        super().__init__(f"{path} at byte {position} (offset {offset}): {why}")
        self.path = path
        self.position = position
        self.offset = offset
        self.why = why


class DamagedLog(Exception):
    """A replica's log cannot be trusted: it is refused, never cut.

    The message names file, position and offset, explains why this is no torn tail, and gives the
    remedy.
    """

    def __init__(self, bad: BadBatch, because: str, remedy: str = REPLICA_REMEDY) -> None:
        super().__init__(
            f"{bad}. {because} Nothing was cut and the log is not served. Remedy: {remedy}"
        )
        self.path = bad.path
        self.position = bad.position
        self.offset = bad.offset
