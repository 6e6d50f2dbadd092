"""The errors of Spark's side, one class for each kind, with the remedy in the message.

Errors cross from Spark's Python workers to the driver as text. So each message is complete: it says
what happened, where, and what to do. `remedy_line` finds that message in Spark's traceback.
"""

import os
import re
from typing import Final


class StrandlineSparkError(Exception):
    """The base class of all errors that this package raises."""


class OptionError(StrandlineSparkError):
    """An option is unknown, missing, or has a value that is not accepted."""


class ClusterUnreachable(StrandlineSparkError):
    """No broker gave a usable answer within the deadline."""


class UnknownTopic(StrandlineSparkError):
    """A requested topic does not exist."""


class DataLoss(StrandlineSparkError):
    """Records that the query relies on have changed: they were truncated, removed by retention, or
    belong to another topic.
    """


class RangeStalled(StrandlineSparkError):
    """A planned offset range could not be read to its end within the deadline."""


class RecordsNotServed(StrandlineSparkError):
    """A leader cannot read its disk, and no other leader was elected."""


class FenceError(StrandlineSparkError):
    """A micro-batch does not start where the table ends. To commit it would lose or duplicate
    records.
    """


class TableError(StrandlineSparkError):
    """The Delta table is missing, has another shape, or another process wrote to it meanwhile."""


class WriteFailed(StrandlineSparkError):
    """Rows could not be written to their topic, or must not be."""


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
"""The errors of a task that recur however often the task runs."""
SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE: Final = "↳"


def first_line(why: Exception) -> str:
    """The message of a library's error, without a stack trace.

    delta-rs gives each cause a line, in colours. Then the last line, the root cause, is added.
    """
    text = without_secrets(str(why))
    lines = [_COLOUR.sub("", line).strip() for line in text.splitlines()]
    first = next((line for line in lines if line), repr(why))
    causes = [line.removeprefix(_CAUSE).strip() for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes else first


def without_secrets(text: str) -> str:
    """Returns a library's text without the credentials of an object store."""
    for name in SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return text


def remedy_line(text: str) -> str | None:
    """The message of the last error of this package in `text`, a Java or Python traceback; None if
    there is none.
    """
    found = _NAMED.findall(text)
    return found[-1][1].strip() if found else None


def is_lasting(text: str) -> bool:
    """True if a task that failed with this traceback would fail again."""
    found = _NAMED.findall(text)
    return bool(found) and found[-1][0] in _LASTING
