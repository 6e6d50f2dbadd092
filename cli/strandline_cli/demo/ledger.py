"""The acknowledgements that the producer got: the offset and the value of every record."""

from dataclasses import dataclass, field
from typing import Final

_UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class PartitionLedger:
    """Acknowledged records of one partition, in the order in which they were sent."""

    offsets: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    def known_offsets(self) -> list[int]:
        """The offsets. An offset that the broker no longer knew is filled in from its neighbours.

        A producer's records of one partition are in the log in the order in which it sent them, and
        here no other producer writes to it.
        """
        filled = list(self.offsets)
        for i, offset in enumerate(filled):
            if offset == _UNKNOWN_OFFSET and i > 0 and filled[i - 1] != _UNKNOWN_OFFSET:
                filled[i] = filled[i - 1] + 1
        for i in range(len(filled) - 2, -1, -1):
            if filled[i] == _UNKNOWN_OFFSET and filled[i + 1] != _UNKNOWN_OFFSET:
                filled[i] = filled[i + 1] - 1
        return filled


@dataclass(slots=True)
class Ledger:
    """The outcome of every record that was sent."""

    partitions: dict[int, PartitionLedger] = field(default_factory=dict)
    acknowledged: int = 0
    bytes_acknowledged: int = 0
    rejected: int = 0
    """Records that are certainly not in the log."""
    unknown: int = 0
    """Records that may be in the log: the producer got no answer in time."""

    def acknowledge(self, partition: int, offset: int, value: bytes) -> None:
        ledger = self.partitions.setdefault(partition, PartitionLedger())
        ledger.offsets.append(offset)
        ledger.values.append(value)
        self.acknowledged += 1
        self.bytes_acknowledged += len(value)

    def fail(self, *, may_have_been_written: bool) -> None:
        if may_have_been_written:
            self.unknown += 1
        else:
            self.rejected += 1
