"""Records lent ahead to an iteration that runs on another thread.

The thread takes records from the left of a deque; the loop takes records back from the right. Both
take one at a time, so the thread always has the first records, without a lock.

A record counts as delivered once the thread has taken it. The loop therefore reads the thread's
progress before an auto-commit. It takes the rest back before anything that depends on the position
or changes what may be delivered; the next step of the iteration is then a poll.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from strandline._core.commit_state import CommitOffset
from strandline._core.position import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._consumer.delivery import Delivery
    from strandline._core.position import Position
    from strandline.types import ConsumerRecord, TopicPartition

LENT_MAX: Final = 500
"""Largest number of records to lend; they are of one partition and one fetched chunk."""


class _Lent:
    """The lent records, and the position before and after them."""

    def __init__(self, position: Position, epoch: int, records: list[ConsumerRecord]) -> None:
        self.position = position
        self.generation = position.generation
        self.records = records
        self.end = position.offset, position.epoch
        self.noted = 0
        """Records of which it is known that they were taken."""
        self._epoch = epoch

    def epoch_before(self, index: int) -> int:
        """Leader epoch of the record before one of the lent records."""
        return self._epoch if index == 0 else self.records[index - 1].leader_epoch


class Lending:
    """The records that one consumer has lent to a blocking iteration."""

    def __init__(
        self, delivery: Delivery, on_step: Callable[[Position, CommitOffset], None]
    ) -> None:
        self.ahead: deque[ConsumerRecord] = deque()
        """Where the iteration takes its records from."""
        self._delivery = delivery
        self._on_step = on_step
        """Called with the record taken last: the records before it are processed (P-113)."""
        self._lent: _Lent | None = None

    def lend(self, positions: list[Position]) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Lends the available records of one partition."""
        self.take_back()
        epochs = {position.partition: position.epoch for position in positions}
        found = self._delivery.collect(positions, LENT_MAX, one_chunk=True)
        for position in positions:
            if (records := found.get(position.partition)) is not None:
                self._lent = _Lent(position, epochs[position.partition], records)
                self.ahead.extend(records)
        return found

    def look(self) -> None:
        """Reads the progress of the iteration."""
        if self._lent is not None:
            self._note(self._lent, len(self._lent.records) - len(self.ahead))

    def _note(self, lent: _Lent, taken: int) -> None:
        if taken > lent.noted:
            lent.noted, last = taken, taken - 1
            at = CommitOffset(lent.records[last].offset, lent.epoch_before(last))
            self._on_step(lent.position, at)

    def take_back(self) -> None:
        """Takes back the records that the iteration has not taken: they count as not delivered."""
        lent, self._lent = self._lent, None
        if lent is None:
            return
        left: list[ConsumerRecord] = []
        while self.ahead:
            try:
                left.append(self.ahead.pop())
            except IndexError:
                break  # the thread took the last one
        left.reverse()
        taken = len(lent.records) - len(left)
        self._note(lent, taken)
        if not left:
            return
        position, epoch = lent.position, lent.epoch_before(taken)
        if position.generation == lent.generation or position.phase is Phase.FAILED:
            self._delivery.put_back(position, left, lent.end, epoch)
        else:  # trouble ahead has moved it: it is for the position of the user to meet
            position.seek(left[0].offset, epoch)
            self._delivery.start_over(position)
