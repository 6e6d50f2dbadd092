"""I-58: a replica's state of producers, compared with the bytes of its log.

The state is a function of the log. It is computed from the log again whenever the replica may have
got it in another way than by appending: when a process begins (a snapshot and the batches after
it), after a truncation, and at each new role. In between each append adds one batch to both.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.oracles.replica.log_view import LogView

_PRODUCER: Final = struct.Struct(">qhi")
_ATTRIBUTES: Final = 21
_CONTROL: Final = 0x20
_AT: Final = 43
"""Position of the producer, its epoch and its first sequence in a batch."""


class _Batch(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_offset: int
    is_marker: bool = False


def check_producers(
    partition: Partition, view: LogView, where: str, *, may_forget: bool = False
) -> None:
    """Compares the two states. `view`: the log of the replica up to its end. Where a truncation was
    cut short, the log marks the state as unknown, until the next role; changes by the disk are
    ignored.
    `may_forget`: producers expire (I-60).
    """
    log = partition.log
    if log.producers is None or log.damaged is not None or log.replay_lacks:
        return
    batches, first = _read(view), max(view.start, log.log_start_offset)
    last: dict[int, int] = {}
    for base, written in batches.items():
        # An end marker forgets the sequences before it.
        last[written.producer_id] = -1 if written.is_marker else base
    for producer in partition.producers.snapshot():
        for batch in producer.batches:
            told = _Batch(
                producer.producer_id,
                producer.producer_epoch,
                batch.base_sequence,
                batch.last_offset,
            )
            if batch.base_offset >= first and batches.get(batch.base_offset) != told:
                raise Violation(
                    "I-58",
                    f"{where}: producer {told.producer_id} has a batch at offset"
                    f" {batch.base_offset} with sequence {told.base_sequence}, and the log, which"
                    f" ends at {log.log_end_offset}, has {batches.get(batch.base_offset)}",
                )
        known = producer.batches[-1].base_offset if producer.batches else -1
        ends = last.pop(producer.producer_id, known)
        if ends >= first and ends != known:
            raise Violation(
                "I-58",
                f"{where}: the last batch of producer {producer.producer_id} is at offset {ends},"
                f" and it is known up to the one at {known}",
            )
    for producer_id, base in last.items():
        if base >= first and not may_forget:
            raise Violation(
                "I-58",
                f"{where}: nothing is known of producer {producer_id}, whose batch is at offset"
                f" {base}",
            )


def _read(view: LogView) -> dict[int, _Batch]:
    """Batches of producers by base offset, as far as their files are there."""
    found = {}
    for number, entry in enumerate(view.entries):
        data = view.bytes_of(number)
        if len(data) >= _AT + _PRODUCER.size:
            producer_id, epoch, sequence = _PRODUCER.unpack_from(data, _AT)
            is_marker = bool(data[_ATTRIBUTES + 1] & _CONTROL)
            if producer_id >= 0 and (sequence >= 0 or is_marker):
                found[entry.base] = _Batch(producer_id, epoch, sequence, entry.end - 1, is_marker)
    return found
