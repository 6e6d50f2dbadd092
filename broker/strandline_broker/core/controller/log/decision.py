"""What a decision is: records to be made durable, and the answer that may be given once they are
(I-82, P-29).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline_broker.core.controller.log.records import AnyRecord

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """One atomic batch, possibly empty, and what to say after it is committed.

    The answer is true only after the records are durable and replayed; nobody hears it before.
    """

    records: Sequence[AnyRecord]
    answer: Answer
