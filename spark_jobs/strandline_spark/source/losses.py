"""Lost records that a query relies on: which, why, and the remedies.

The losses of all partitions are found first and reported together, so that one error shows the
whole damage. The option `failOnDataLoss` chooses what follows:

* The query stops.
* The query continues at the first unread record.
* The query continues only where retention alone removed records. After a topic was created again,
  or a log was truncated, offsets have another meaning.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import DataLoss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.cluster.offsets import TopicPartition

_logger: Final = logging.getLogger(__name__)

NAMED_MAX: Final = 20
"""Number of partitions that a message names; the others are counted."""


class OnLoss(StrEnum):
    """The values of `failOnDataLoss`."""

    STOP = "true"
    GO_ON = "false"
    EXCEPT_RETENTION = "exceptRetention"


class Reason(StrEnum):
    RETENTION = "retention"
    DELETION = "deletion"
    NEW_TOPIC = "new topic"
    TRUNCATION = "truncation"


WAYS_OUT: Final = (
    " Ways out: start a new checkpoint (and table), or set failOnDataLoss=false to go on at the"
    " first record not yet read"
)
DELETION_WAYS_OUT: Final = (
    " Ways out: start a new checkpoint (and table), or set failOnDataLoss=false to go on with what"
    " is left"
)
RETENTION_WAYS_OUT: Final = (
    f"{WAYS_OUT} (exceptRetention does so where retention alone took records); to lose none, read"
    " sooner or keep records longer"
)


_JOB_WAYS_OUT: Final = (
    " The offsets that the table holds mean other records now: begin a new table, with empty paths"
    " for --table and --checkpoint"
)
JOB_DELETION_WAYS_OUT: Final = (
    " Ways out: name a topic again that is there still, or leave out what is gone and give an empty"
    " path for --checkpoint: the job goes on where the table ends"
)
_JOB_RETENTION_WAYS_OUT: Final = (
    " Ways out: give --on-loss record, to go on at the first record not yet read and count the lost"
    " ones in the table, or begin a new table, with empty paths for --table and --checkpoint; to"
    " lose none, read sooner or keep records longer"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """The lost range [start, end) of one partition; `end` is None if everything from `start` on is
    gone.
    """

    tp: TopicPartition
    start: int
    end: int | None
    reason: Reason
    what: str

    def __str__(self) -> str:
        extent = f"from {self.start} on" if self.end is None else f"[{self.start}, {self.end})"
        return f"{self.tp} {extent} by {self.reason} ({self.what})"


def settle(losses: Sequence[Loss], on_loss: OnLoss) -> None:
    """Raises DataLoss with all losses, or logs a warning for each if the query continues."""
    if not losses:
        return
    reasons = {loss.reason for loss in losses}
    alone = reasons == {Reason.RETENTION}
    text = described(losses)
    if on_loss is OnLoss.STOP or (on_loss is OnLoss.EXCEPT_RETENTION and not alone):
        # The remaining offsets keep their meaning.
        gone = DELETION_WAYS_OUT if reasons <= {Reason.RETENTION, Reason.DELETION} else WAYS_OUT
        raise DataLoss(f"{text}.{RETENTION_WAYS_OUT if alone else gone}")
    _logger.warning("%s; going on at the first record not yet read", text)


def described(losses: Sequence[Loss]) -> str:
    """Returns the losses in one line."""
    ordered = sorted(losses, key=lambda loss: (loss.tp, loss.start))
    more = len(ordered) - NAMED_MAX
    named = "; ".join(str(loss) for loss in ordered[:NAMED_MAX])
    return f"data loss: {named}{f'; and {more} more' if more > 0 else ''}"


def for_job(message: str) -> str:
    """Returns the message of a DataLoss with the remedies for a user of the bronze job."""
    return (
        message.replace(RETENTION_WAYS_OUT, _JOB_RETENTION_WAYS_OUT)
        .replace(DELETION_WAYS_OUT, JOB_DELETION_WAYS_OUT)
        .replace(WAYS_OUT, _JOB_WAYS_OUT)
    )


def for_replay(message: str) -> str:
    """Returns the message of a DataLoss with the remedy for a user of `replay`."""
    again = " Start it again, to read the topic as it is now"
    later = " Give a later --from; earliest is the first record that the topic still holds"
    message = message.replace(RETENTION_WAYS_OUT, later).replace(DELETION_WAYS_OUT, again)
    return message.replace(WAYS_OUT, later)
