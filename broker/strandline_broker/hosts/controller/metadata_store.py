"""The protocol of the store that keeps the controller's decisions; a second store can replace it.

`storage.controller.metadata_log` is the only store: a log and snapshots on one disk. Its lock
excludes a second controller, so its writes need no condition. A store that several controllers
share must keep the same promises and one more: `append` fails if a later controller epoch has
written (I-31). The caller ends its process at any failure of `append` except `NoRoom`. So a deposed
controller ends before it can announce a decision that it did not make.
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
    """A blocking store. Every call except reads and `write_snapshot` is made one at a time, in the
    order of the requests.
    """

    @property
    def snapshot(self) -> StoredSnapshot | None:
        """The snapshot from which a start begins; None: begin from the first record."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last durable record."""
        ...

    @property
    def bytes_since_snapshot(self) -> int: ...

    def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """(base, last offset, values) of each decision after `snapshot`, oldest first."""
        ...

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        """Returns (base, last offset) of one decision once it is durable. NoRoom: it was not
        written, and the next one may be tried. Any other error is final: the outcome is unknown.
        """
        ...

    def seal(self) -> None:
        """Begin a new file at the current end, where a snapshot is about to be taken."""
        ...

    def write_snapshot(
        self, values: Iterable[bytes], *, end_offset: int, controller_epoch: int, now_ms: int
    ) -> int:
        """Returns the number of bytes written, once they are durable. Runs beside appends. OSError:
        nothing has changed.
        """
        ...

    def forget_covered(self, *, end_offset: int, controller_epoch: int) -> int:
        """Drop all that no start needs, now that this snapshot is durable. OSError: some of it
        remains.
        """
        ...
