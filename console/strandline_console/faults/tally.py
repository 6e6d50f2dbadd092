"""The account of the checking workload: each record that was sent, acknowledged, read, lost or
doubled.

A value is a number that is sent once. A record is lost if it was acknowledged at an offset that the
reader has passed without finding it. It is doubled if the reader finds it at a second offset.
"""

from collections import OrderedDict
from typing import Final

REMEMBERED: Final = 100_000
"""Values of each partition that are remembered after they were read."""


class _PartitionTally:
    def __init__(self) -> None:
        self.position = 0
        self.waiting: dict[int, int] = {}
        """Acknowledged values that the reader has not passed, by offset."""
        self.read: OrderedDict[int, int] = OrderedDict()
        """Offsets of values that were read, oldest first."""


class Tally:
    """The account of one run of the workload. `positions` is where the reader begins."""

    def __init__(self, positions: dict[int, int]) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.read = 0
        self.lost = 0
        self.doubled = 0
        self.failed = 0
        self._partitions = {partition: _PartitionTally() for partition in positions}
        for partition, position in positions.items():
            self._partitions[partition].position = position

    def on_acknowledged(self, partition: int, offset: int, value: int) -> None:
        """A send has ended well. The reader may have found the record before."""
        self.acknowledged += 1
        tally = self._partitions[partition]
        if value in tally.read:
            return
        if offset < 0:  # the leader has forgotten where it is: nothing can be said of it
            return
        if offset < tally.position:
            self.lost += 1
        else:
            tally.waiting[offset] = value

    def on_failed(self) -> None:
        """A send has ended with an error: the record may be in the log or not."""
        self.failed += 1

    def on_read(self, partition: int, offset: int, value: int) -> None:
        """The reader has found a value."""
        tally = self._partitions[partition]
        before = tally.read.get(value)
        if before is None:
            self.read += 1
            tally.read[value] = offset
            if len(tally.read) > REMEMBERED:
                tally.read.popitem(last=False)
        elif before != offset:
            self.doubled += 1
        if tally.waiting.get(offset) == value:
            del tally.waiting[offset]

    def on_passed(self, partition: int, position: int) -> None:
        """The reader has read everything below a position."""
        tally = self._partitions[partition]
        tally.position = max(tally.position, position)
        passed = [offset for offset in tally.waiting if offset < position]
        for offset in passed:
            if tally.waiting.pop(offset) not in tally.read:
                self.lost += 1
