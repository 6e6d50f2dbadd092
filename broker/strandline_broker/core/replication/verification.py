"""Guards of one leadership: they tie the first batch of a transaction to its verification.

A batch that is late may arrive after the end of its transaction. Appended then, it would open a
transaction that no producer ends, and hold back the last stable offset for ever (P-106). So the
leader asks the coordinator before it appends the batch that opens a transaction (I-157). The answer
"yes" may be outdated as well: the end marker may be written between answer and append.

A guard is an object that the leader makes before it asks. The end of the transaction voids it, and
the append that opens the transaction uses it up. The batch is appended only while its own guard is
the current one (I-158). A guard that was made later does not count, however alike: it belongs to
another question.

The epochs of a marker and of a guard tell whether they belong together (P-117):

- A marker of a higher epoch voids the guard.
- A marker of an equal epoch voids it too, if either of the two is of a transaction without an epoch
  of its own.
- If both are of transactions with their own epochs (KIP-890), the marker of the transaction before
  has the epoch of the next one's data. A late copy of it voids nothing.

Guards are not in the log (I-159): a new leader begins without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_broker.core.replication.first_batches import is_before
from strandline_proto.errors import InvalidTxnState, OutOfOrderSequenceNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.replication.end_marker import EndMarker


@dataclass(slots=True, eq=False)
class Guard:
    """One question to the coordinator. Two equal guards are two questions."""

    producer_id: int
    producer_epoch: int
    raises_epoch: bool
    """True if the end of the transaction raises the producer's epoch."""
    lowest_sequence: int
    """The lowest first sequence of the batches that wait for the answer. A batch with a higher one
    must not be appended first (P-127).
    """


class Guards:
    """The current guards: at most one for each producer, epoch and kind of transaction."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, list[Guard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __contains__(self, producer_id: int) -> bool:
        """True if a batch of the producer waits for the coordinator."""
        return producer_id in self._of

    def find(self, producer_id: int, producer_epoch: int, *, raises_epoch: bool) -> Guard | None:
        for guard in self._of.get(producer_id, ()):
            if (guard.producer_epoch, guard.raises_epoch) == (producer_epoch, raises_epoch):
                return guard
        return None

    def take(
        self, producer_id: int, producer_epoch: int, sequence: int, *, raises_epoch: bool
    ) -> Guard:
        """Returns the current guard for a batch with this first sequence, or makes one. The
        coordinator is asked after that.
        """
        guard = self.find(producer_id, producer_epoch, raises_epoch=raises_epoch)
        if guard is None:
            guard = Guard(producer_id, producer_epoch, raises_epoch, sequence)
            self._of.setdefault(producer_id, []).append(guard)
        elif is_before(sequence, guard.lowest_sequence):
            guard.lowest_sequence = sequence
        return guard

    def is_current(self, guard: Guard) -> bool:
        return any(each is guard for each in self._of.get(guard.producer_id, ()))

    def check(self, guard: Guard, sequence: int) -> None:
        """Checks that the batch with this first sequence may open the transaction for which the
        coordinator was asked under the guard. Raises InvalidTxnState or OutOfOrderSequenceNumber.
        """
        if not self.is_current(guard):
            raise InvalidTxnState(
                f"the transaction of producer {guard.producer_id} in epoch"
                f" {guard.producer_epoch} ended before its batch was appended; begin another one"
            )
        if is_before(guard.lowest_sequence, sequence):
            raise OutOfOrderSequenceNumber(
                f"producer {guard.producer_id} sent sequence {sequence}, but its batch with"
                f" sequence {guard.lowest_sequence} is not appended yet"
            )

    def drop(self, guard: Guard) -> None:
        """Ends the guard: its question has its answer, or no request waits for one."""
        self._remove(guard.producer_id, lambda each: each is guard)

    def on_append(self, producer_id: int, producer_epoch: int) -> None:
        """Uses up the guards of the producer in this epoch and earlier ones: its transaction is
        open.
        """
        self._remove(producer_id, lambda each: each.producer_epoch <= producer_epoch)

    def on_marker(self, marker: EndMarker) -> list[Guard]:
        """Voids the guards of the transaction that the marker ends, or of earlier ones, and returns
        them. A repeated marker voids guards too: its transaction may have no batch in this
        partition.
        """
        return self._remove(marker.producer_id, lambda each: _is_ended_by(each, marker))

    def _remove(self, producer_id: int, is_over: Callable[[Guard], bool]) -> list[Guard]:
        guards = self._of.get(producer_id, [])
        removed = [each for each in guards if is_over(each)]
        left = [each for each in guards if each not in removed]
        if left:
            self._of[producer_id] = left
        else:
            self._of.pop(producer_id, None)
        return removed


def _is_ended_by(guard: Guard, marker: EndMarker) -> bool:
    if guard.producer_epoch != marker.producer_epoch:
        return guard.producer_epoch < marker.producer_epoch
    return not (guard.raises_epoch and marker.raises_epoch)
