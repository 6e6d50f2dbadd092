"""The faults of rows, with the reasons by which quarantine counts them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from strandline_spark.parsing.settings import DETAIL_MAX


class Reason(StrEnum):
    """The kind of a fault, the same for all rows of that kind."""

    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "not an object"
    MORE_THAN_ONE_VALUE = "more than one value"
    FIELD_TWICE = "field twice"
    NESTED_TOO_DEEPLY = "nested too deeply"
    WRONG_TYPE = "wrong type"
    OUT_OF_RANGE = "out of range"
    NO_EVENT_TIME = "no event time"
    EVENT_TIME_AHEAD = "event time ahead"
    WRONG_FIELD_COUNT = "wrong number of fields"
    NOT_ONE_ROW = "not one row"
    NO_MATCH = "no match"
    NOT_AVRO = "not Avro"
    NOT_PROTOBUF = "not Protobuf"
    NO_SCHEMA_ID = "no schema id"
    UNKNOWN_SCHEMA = "schema id without a schema"
    ANOTHER_MESSAGE = "another message"
    NULL = "null"
    CRASH = "ends the parser"


class Fault(NamedTuple):
    """The fault of one row."""

    reason: Reason
    detail: str


def fault(reason: Reason, detail: str) -> Fault:
    """Returns a fault, with the detail cut to a table's limit."""
    if len(detail) > DETAIL_MAX:
        detail = detail[: DETAIL_MAX - 1] + "…"
    return Fault(reason, detail)


def shown(value: object) -> str:
    """Returns a value as a detail quotes it."""
    if isinstance(value, str | bytes) and len(value) > DETAIL_MAX:
        value = value[:DETAIL_MAX]
    return repr(str(value) if isinstance(value, str) else value)
