"""What the controller asks of the place that keeps its decisions: the seam for another store.

`storage.metadata_log` is the one there is: a log and snapshots on one disk, whose lock keeps a
second controller out, so its writes need no condition. A store that several controllers share keeps
the same promises and one more: `append` fails if a later controller epoch has written (I-31). The
caller ends its process at any failure of `append` but `NoRoom`, so a deposed controller is gone
before it can say what it did not decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class StoredSnapshot(Protocol):
    """The state after all records below `end_offset`, as `core.controller.snapshot` wrote it."""

    @property
    def end_offset(self) -> int: ...

    @property
    def values(self) -> Sequence[bytes]: ...


class MetadataStore(Protocol):
    """Blocking. All but `write_snapshot` and what is read are called one at a time, in the order
    in which they were asked for.
    """

    @property
    def snapshot(self) -> StoredSnapshot | None:
        """What a start begins from; None: from the first record."""
        ...

    @property
    def end_offset(self) -> int:
        """Of the last durable record, plus one."""
        ...

    @property
    def bytes_since_snapshot(self) -> int: ...

    def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """(base, last offset, values) of each decision behind `snapshot`, oldest first."""
        ...

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        """(base, last offset) of one decision, once nothing can take it back. NoRoom: it has not
        happened, and the next one may be tried. Any other error is final: whether it happened is
        unknown.
        """
        ...

    def seal(self) -> None:
        """A snapshot at the present end is about to be taken: begin a new file there."""
        ...

    def write_snapshot(
        self, values: Iterable[bytes], *, end_offset: int, controller_epoch: int, now_ms: int
    ) -> int:
        """Bytes written, once they are durable. Runs beside appends. OSError: as if never asked."""
        ...

    def forget_covered(self, *, end_offset: int, controller_epoch: int) -> int:
        """That snapshot is durable: drop what no start can need. OSError: some of it stays."""
        ...
