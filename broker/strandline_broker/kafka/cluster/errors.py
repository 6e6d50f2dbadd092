"""The error fields of answers, and Kafka's codes that only its protocol uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka.codec import message_of
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from strandline_proto.errors import WireError

REPLICA_NOT_AVAILABLE: Final = 9
ILLEGAL_SASL_STATE: Final = 34
SECURITY_DISABLED: Final = 54
LISTENER_NOT_FOUND: Final = 72
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
REBOOTSTRAP_REQUIRED: Final = 129


def error_fields(error: WireError | None) -> dict[str, Any]:
    """The fields of an answer, or of its part, that hold its error."""
    if error is None:
        return {"error_code": NONE, "error_message": None}
    return {"error_code": error.code, "error_message": message_of(error)}
