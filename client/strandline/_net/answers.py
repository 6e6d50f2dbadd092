"""The error that an answer of a broker carries."""

from __future__ import annotations

from typing import Any

from strandline.errors import BrokerError, TopicAlreadyExists, from_code
from strandline_proto.errors import NONE


def check(result: Any) -> None:
    """Raises the error that an answer carries."""
    if result.error_code == NONE:
        return
    error: BrokerError = from_code(result.error_code, result.error_message)
    if isinstance(error, TopicAlreadyExists):
        error.add_note(
            "an earlier try of the same call may have created it, had its answer got lost"
        )
    raise error
