"""Leader epochs and their start offsets, in memory and in `leader-epoch-checkpoint` (I-5, I-37,
I-46, I-47).

Entries rise strictly in epoch and in start offset. The last one may begin at the log's end: a
leader assigned its epoch and has appended nothing yet. Every change is durable before the method
returns, so the log never holds a batch whose epoch is absent here.

A loss of power may take the batches of an epoch and leave its entry. The file keeps that entry
until the next append: it shows how far the leaders had come that this log followed (I-53).
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import in_kafkas_form, natural, parse
from strandline_broker.storage.files.sealed_file import SealedFile
from strandline_broker.storage.files.steps import in_a_row
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.files.steps import Steps
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "leader-epoch-checkpoint"
OFFSET_MAX: Final = (1 << 63) - 1
UNDEFINED: Final = (-1, -1)


class LeaderEpochs:
    __slots__ = ("_entries", "_file", "beyond", "directory", "is_whole", "unsettled")

    def __init__(
        self, fs: FileSystem, directory: str, entries: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._file = SealedFile(fs, f"{directory}/{FILE_NAME}")
        self.directory = directory
        pairs = list(entries)
        self.unsettled = False
        """True if file and memory may differ at the log's end; `write` reconciles them before the
        next append.
        """
        self.beyond: tuple[tuple[int, int], ...] = ()
        """Entries of the file that begin beyond the log's end. Their batches are gone."""
        self.is_whole = True
        """True if no entry can be missing. False: the file was lost, and the entries come from
        batches.
        """
        # One tuple, so that a reader on another thread always sees epochs and starts that match.
        self._entries = ([epoch for epoch, _ in pairs], [start for _, start in pairs])

    @classmethod
    def load(cls, fs: FileSystem, directory: str, report: Report) -> LeaderEpochs | None:
        """The epochs of the checkpoint; None if it is absent or does not parse. The caller then
        reads them from the log.
        """
        epochs = cls(fs, directory)
        data = epochs._file.read(report)
        if data is None:
            return None
        try:
            entries = [(natural(epoch), natural(start)) for epoch, start in parse(data)]
            if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(entries)):
                raise ValueError("its entries do not rise")
        except ValueError as error:
            path = epochs._file.path
            report(f"{path} does not read as a checkpoint ({error}) and is treated as absent.")
            return None
        epochs._entries = ([epoch for epoch, _ in entries], [start for _, start in entries])
        return epochs

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of each epoch, oldest first."""
        return tuple(zip(*self._entries, strict=True))

    @property
    def table(self) -> tuple[Sequence[int], Sequence[int]]:
        """(epochs, start offsets), oldest first; another object after each change."""
        return self._entries

    def latest(self) -> int:
        epochs = self._entries[0]
        return epochs[-1] if epochs else -1

    @property
    def newest_known(self) -> int:
        """The latest epoch, also of batches that are gone."""
        return self.beyond[-1][0] if self.beyond else self.latest()

    def parts_at(self, log_end_offset: int) -> int:
        """Returns the offset at which the first epoch began whose batches are gone. Without such an
        epoch it is the log's end.
        """
        return self.beyond[0][1] if self.beyond else log_end_offset

    def has_begun(self, epoch: int) -> bool:
        """True if `epoch` is the latest, durably."""
        return epoch == self.latest() and not self.unsettled

    def epoch_at(self, offset: int) -> int:
        """The epoch of the batch that holds `offset`; -1 if no entry begins at or before it."""
        return self.reign_at(offset)[0]

    def reign_at(self, offset: int) -> tuple[int, int]:
        """(`epoch_at(offset)`, start offset of the next epoch)."""
        epochs, starts = self._entries
        i = bisect_right(starts, offset)
        return epochs[i - 1] if i > 0 else -1, starts[i] if i < len(starts) else OFFSET_MAX

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the epoch found, its end offset) for a follower that knows `epoch` (I-37); (-1, -1) if
        undefined.
        """
        epochs, starts = self._entries
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return UNDEFINED
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        if epoch < epochs[0]:
            return epoch, starts[0]
        i = bisect_right(epochs, epoch)
        return epochs[i - 1], starts[i]

    def assign(self, epoch: int, start: int) -> None:
        """Record that `epoch` begins at `start`. If `epoch` is the latest already, its start is
        kept.
        """
        self.assign_all([(epoch, start)])

    def assign_all(self, entries: Iterable[tuple[int, int]]) -> None:
        """Assign every entry, with one write."""
        in_a_row(self.assigning(entries))

    def assigning(self, entries: Iterable[tuple[int, int]]) -> Steps[None]:
        """Assign every entry, in the steps of `replacing_files`.

        An older epoch without any batch is replaced. Raises KafkaStorageError if an epoch is older
        than the latest (I-2).
        """
        epochs, starts = map(list, self._entries)
        for epoch, start in entries:
            if epochs and epoch == epochs[-1]:
                continue
            if epochs and epoch < epochs[-1]:
                raise KafkaStorageError(
                    f"{self.directory}: leader epoch {epoch} cannot begin behind {epochs[-1]}"
                )
            while starts and starts[-1] >= start:
                starts.pop()
                epochs.pop()
            epochs.append(epoch)
            starts.append(start)
        yield from self._keeping(epochs, starts)

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that begin at or after `offset` (I-47)."""
        epochs, starts = self._entries
        keep = bisect_left(starts, offset)
        self._keep(epochs[:keep], starts[:keep])

    def drop_above(self, log_end_offset: int) -> None:
        """Drop the epochs that begin beyond the log's end. A crash between two writes or a loss of
        power leaves such epochs. They stay in the file, and in `beyond`, until the next append.
        """
        epochs, starts = self._entries
        keep = bisect_right(starts, log_end_offset)
        if keep < len(starts):
            self.beyond = self.entries[keep:]
            self._entries = epochs[:keep], starts[:keep]
            self.unsettled = True

    def truncate_from_start(self, log_start_offset: int) -> None:
        """Let the first remaining epoch begin at the log's start (I-5)."""
        epochs, starts = self._entries
        i = bisect_right(starts, log_start_offset) - 1
        if i >= 0:
            self._keep(epochs[i:], [log_start_offset, *starts[i + 1 :]], self.beyond)

    def revert(self, entries: tuple[tuple[int, int], ...]) -> None:
        """Return to `entries`, because no batch followed. The file is written too, unless the write
        fails now.
        """
        if entries == self.entries:
            return
        self._entries = ([epoch for epoch, _ in entries], [start for _, start in entries])
        self.unsettled = True
        with contextlib.suppress(OSError):
            self.write()

    def clear(self) -> None:
        self._keep([], [])

    def write(self) -> None:
        """Write the entries to the checkpoint."""
        self._file.replace(_content(*self._entries))
        self.unsettled = False
        self.beyond = ()

    def _keep(
        self, epochs: list[int], starts: list[int], beyond: tuple[tuple[int, int], ...] = ()
    ) -> None:
        in_a_row(self._keeping(epochs, starts, beyond))

    def _keeping(
        self, epochs: list[int], starts: list[int], beyond: tuple[tuple[int, int], ...] = ()
    ) -> Steps[None]:
        """Write the file first; memory changes only if the file was replaced (P-36). `beyond` holds
        the entries beyond the log's end that the file keeps.
        """
        if (epochs, starts) == self._entries:
            return
        try:
            lost_epochs, lost_starts = zip(*beyond, strict=True) if beyond else ((), ())
            content = _content((*epochs, *lost_epochs), (*starts, *lost_starts))
            yield from self._file.replacing(content)
        except OSError:  # the file has the old content or the new one
            self.unsettled |= epochs[-1:] != self._entries[0][-1:]
            raise
        self._entries = epochs, starts
        self.unsettled = beyond != ()
        self.beyond = beyond


def _content(epochs: Sequence[int], starts: Sequence[int]) -> bytes:
    pairs = zip(epochs, starts, strict=True)
    return in_kafkas_form(f"{epoch} {start}" for epoch, start in pairs)
