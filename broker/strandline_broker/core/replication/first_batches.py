"""The first batches of producers that a leader has no state of.

A producer without state is new here, or it was forgotten: by its expiration, or with a topic that
was deleted and created again. The leader cannot tell which. A new producer begins at sequence 0,
and its first batch may have been refused, while the batches behind it arrive. They must not be
appended before it (I-59). A forgotten producer continues with any sequence.

A client sends refused batches again in the order of their sequences. Between two arrivals of one
batch on one connection, every earlier batch that still waits has therefore arrived too. So the
second arrival is the first batch of a forgotten producer, if no earlier one arrived in between.

The arrivals are kept for one leadership, and count only on their own connection: an old connection
may deliver late what another leadership refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_proto.batch import SEQUENCE_MAX

if TYPE_CHECKING:
    from strandline_proto.batch import BatchHeader

PRODUCERS_MAX: Final = 1000
"""Producers whose arrivals are kept; the one kept longest goes, and is refused once more."""
ARRIVALS_MAX: Final = 5
"""Arrivals kept of one producer, the earliest sequences: as many as it may have in flight."""


@dataclass(frozen=True, slots=True)
class _Arrivals:
    connection: object
    epoch: int
    sequences: list[int] = field(default_factory=list)
    """First sequences of the batches since the earliest one arrived last, in order."""


class FirstBatches:
    def __init__(self) -> None:
        self._of: dict[int, _Arrivals] = {}

    def arrives(self, header: BatchHeader, connection: object) -> bool:
        """Records the arrival of a batch whose producer has no state. True if the batch has arrived
        before on this connection, and since then no batch with an earlier sequence.
        """
        found = self._of.get(header.producer_id)
        if (
            found is None
            or found.connection is not connection
            or found.epoch != header.producer_epoch
        ):
            found = self._begin(header, connection)
        sequences, sequence = found.sequences, header.base_sequence
        while sequences and is_before(sequence, sequences[-1]):
            sequences.pop()
        if sequences and sequences[-1] == sequence:
            return True
        if len(sequences) < ARRIVALS_MAX:
            sequences.append(sequence)
        return False

    def _begin(self, header: BatchHeader, connection: object) -> _Arrivals:
        self.forget(header.producer_id)
        if len(self._of) >= PRODUCERS_MAX:
            del self._of[next(iter(self._of))]
        begun = self._of[header.producer_id] = _Arrivals(connection, header.producer_epoch)
        return begun

    def forget(self, producer_id: int) -> None:
        """Drops the arrivals of a producer that has state now."""
        self._of.pop(producer_id, None)


def is_before(a: int, b: int) -> bool:
    """True if sequence `a` comes before `b`, over the wrap."""
    return 0 < (b - a) & SEQUENCE_MAX <= SEQUENCE_MAX // 2
