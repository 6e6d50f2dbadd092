"""What is said of a task that failed while Spark tries it again."""

from __future__ import annotations

import pytest

from strandline_spark.errors import is_lasting
from strandline_spark.spark.task_failures import _last_words

PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 7, in main
    import strandline_spark
{error}

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
Caused by: java.io.EOFException
\tat java.io.DataInputStream.readInt(DataInputStream.java:1)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PYTHON.format(error="ImportError: no x"), "ImportError: no x"),
        ("ExecutorLostFailure (executor 1 exited) Reason: killed", "ExecutorLostFailure (executor"),
        (
            "java.io.IOException: No space left\n\tat java.io.X(X.java:1)",
            "java.io.IOException: No ",
        ),
        ("", "it does not say why"),
    ],
)
def test_the_last_words_of_a_task_are_those_of_its_error(text: str, words: str) -> None:
    assert _last_words(text).startswith(words)


@pytest.mark.parametrize(
    ("error", "lasts"),
    [
        ("strandline_spark.errors.DataLoss: data loss: t:0", True),
        ("strandline_proto.errors.CorruptMessage: t:0 at offset 3: CRC", True),
        ("strandline_spark.errors.RangeStalled: t:0 got no record for 120 s", False),
        ("OSError: no such worker", False),
    ],
)
def test_only_what_would_fail_again_is_not_tried_again(error: str, lasts: bool) -> None:
    assert is_lasting(PYTHON.format(error=error)) is lasts
