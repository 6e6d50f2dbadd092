"""Errors of coordinators as Kafka's clients know them."""

from __future__ import annotations

from strandline_broker.kafka.codec import message_of
from strandline_proto.errors import NONE, CoordinatorNotAvailable, RequestTimedOut, WireError


def code_of(error: WireError | None) -> int:
    """Returns the error code of an answer; 0 without an error.

    Kafka's clients repeat a request to a coordinator that could not commit in time only if the
    answer says COORDINATOR_NOT_AVAILABLE; REQUEST_TIMED_OUT of a coordinator is unknown to them.
    """
    if error is None:
        return NONE
    return CoordinatorNotAvailable.code if isinstance(error, RequestTimedOut) else error.code


def text_of(error: WireError | None) -> str | None:
    """Returns the message of an answer that has a place for one."""
    return None if error is None else message_of(error)
