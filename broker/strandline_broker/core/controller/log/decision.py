"""The type of a decision: records to be made durable, and the answer that may be sent afterwards
(I-82, P-29).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline_broker.core.controller.log.records import AnyRecord

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """One atomic batch, possibly empty, and the answer after its commit.

    The answer is true only after the records are durable and replayed; it is not sent before.
    """

    records: Sequence[AnyRecord]
    answer: Answer
