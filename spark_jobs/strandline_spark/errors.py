"""What can go wrong on Spark's side, one class for each kind, with the remedy in the message.

They cross from Spark's Python workers to the driver as text, so each message stands alone: what
happened, where, and what to do. `remedy_line` finds that message again in what Spark makes of it.
"""

import re
from typing import Final


class StrandlineSparkError(Exception):
    """Base of everything this package reports."""


class OptionError(StrandlineSparkError):
    """An option is unknown, missing, or has a value that is not accepted."""


class ClusterUnreachable(StrandlineSparkError):
    """No broker gave a usable answer within the deadline."""


class UnknownTopic(StrandlineSparkError):
    """A topic that was asked for does not exist."""


class DataLoss(StrandlineSparkError):
    """Records that the query relies on are no longer what they were: truncated, aged out, or of
    another topic.
    """


class RangeStalled(StrandlineSparkError):
    """A planned offset range could not be read to its end within the deadline."""


class RecordsNotServed(StrandlineSparkError):
    """A leader cannot read its disk, and no other one has come."""


class FenceError(StrandlineSparkError):
    """A micro-batch does not start where the table ends, so committing it would lose or double
    records.
    """


class TableError(StrandlineSparkError):
    """The Delta table is missing, of another shape, or was written by somebody else meanwhile."""


class WriteFailed(StrandlineSparkError):
    """Rows could not be written to their topic, or may not be."""


class EnvironmentProblem(StrandlineSparkError):
    """Java, Python or Spark is not set up as the job needs it."""


_NAMED: Final = re.compile(
    r"^(?:\w+\.)*(OptionError|ClusterUnreachable|UnknownTopic|DataLoss|RangeStalled|FenceError|TableError"
    r"|WriteFailed|EnvironmentProblem|RecordsNotServed|CorruptMessage|RecordTooLarge): (.+)$",
    re.MULTILINE,
)
_LASTING: Final = frozenset(
    (
        "OptionError",
        "DataLoss",
        "RecordsNotServed",
        "TableError",
        "CorruptMessage",
        "RecordTooLarge",
    )
)
"""Those of a task that are the same however often the task is run."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE: Final = "↳"


def first_line(why: Exception) -> str:
    """What a library says, without the stack that it may add. delta-rs gives each cause a line, in
    colours: then the last one, from which all came, follows.
    """
    lines = [_COLOUR.sub("", line).strip() for line in str(why).splitlines()]
    first = next((line for line in lines if line), repr(why))
    causes = [line.removeprefix(_CAUSE).strip() for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes else first


def remedy_line(text: str) -> str | None:
    """The message of the last of our errors in `text`, a Java or Python traceback; None if there is
    none.
    """
    found = _NAMED.findall(text)
    return found[-1][1].strip() if found else None


def is_lasting(text: str) -> bool:
    """Whether a task that failed with this traceback would fail again."""
    found = _NAMED.findall(text)
    return bool(found) and found[-1][0] in _LASTING
