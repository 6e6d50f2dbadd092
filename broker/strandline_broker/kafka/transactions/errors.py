"""Errors of transactions as the versions of Kafka's requests know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.groups import errors as coordinators
from strandline_proto.errors import InvalidProducerEpoch, ProducerFenced

if TYPE_CHECKING:
    from strandline_proto.errors import WireError

FENCED_SINCE: Final = 2
"""First version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows ProducerFenced."""


def code_of(error: WireError | None, version: int, fenced_since: int = FENCED_SINCE) -> int:
    """Returns the error code of an answer; 0 without an error.

    Clients of versions below `fenced_since` know a fenced producer by its epoch (KIP-588).
    """
    if isinstance(error, ProducerFenced) and version < fenced_since:
        return InvalidProducerEpoch.code
    return coordinators.code_of(error)
