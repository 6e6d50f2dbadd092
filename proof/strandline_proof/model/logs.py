"""Changes to a log of the model, and the invariants of a log (I-2, I-5, I-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.model.values import Log, Violation

if TYPE_CHECKING:
    from strandline_proof.model.values import Entry


class History:
    """A log's leader epochs, as `core` asks for them (I-37)."""

    def __init__(self, log: Log) -> None:
        self._epochs = log.epochs

    def latest(self) -> int:
        return self._epochs[-1][0] if self._epochs else -1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        epochs = self._epochs
        if epoch == -1 or not epochs or epoch > epochs[-1][0]:
            return (-1, -1)
        if epoch == epochs[-1][0]:
            return (epoch, log_end_offset)
        if epoch < epochs[0][0]:
            return (epoch, epochs[0][1])
        floor = max(e for e, _ in epochs if e <= epoch)
        return (floor, min(s for e, s in epochs if e > epoch))


def assign_epoch(log: Log, epoch: int) -> Log:
    """I-46. Epochs' starts increase strictly, so an epoch without records is dropped (I-5)."""
    if log.epochs and epoch <= log.epochs[-1][0]:
        return log
    end = len(log.entries)
    kept = tuple((e, s) for e, s in log.epochs if s < end)
    return log._replace(epochs=(*kept, (epoch, end)))


def append(log: Log, entries: tuple[Entry, ...]) -> Log:
    for entry in entries:
        latest = log.epochs[-1][0] if log.epochs else -1
        if entry[0] < latest:
            raise Violation(f"I-2: a record of epoch {entry[0]} is appended after epoch {latest}")
        log = assign_epoch(log, entry[0])
        log = log._replace(entries=(*log.entries, entry))
    return log


def truncate(log: Log, offset: int) -> Log:
    return Log(
        log.entries[:offset],
        tuple((e, s) for e, s in log.epochs if s < offset),
        min(log.high_watermark, offset),
    )


def problem(log: Log) -> str | None:
    """The reason why a log must not look like this; None if it may."""
    end = len(log.entries)
    if not 0 <= log.high_watermark <= end:
        return f"I-6: high watermark {log.high_watermark} of a log that ends at {end}"
    starts = [s for _, s in log.epochs]
    if starts != sorted(set(starts)) or (starts and starts[-1] > end):
        return f"I-5: epochs start at {starts} in a log that ends at {end}"
    for at, entry in enumerate(log.entries):
        covering = [e for e, s in log.epochs if s <= at]
        if not covering or covering[-1] != entry[0]:
            return f"I-5: record {at} is of epoch {entry[0]}, the history is {log.epochs}"
    return None
