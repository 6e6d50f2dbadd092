"""Produce in a transaction over Kafka's protocol: what versions ask, and the errors they know."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proto import errors
from strandline_proto.errors import NONE, WireError
from support.kafka_records import KafkaRecords, kafka_records, produce
from support.scripted_verifier import ScriptedVerifier, transactional

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VERSIONS = (3, 7, 10, 11, 12, 13)
NOT_ENOUGH_REPLICAS = 19


@asynccontextmanager
async def leader(path: Path) -> AsyncIterator[tuple[KafkaRecords, ScriptedVerifier]]:
    verifier = ScriptedVerifier()
    async with kafka_records(path / "1", verifier=verifier) as broker:
        yield broker, verifier


def sent(version: int, *records: bytes, transactional_id: str | None = "pay") -> Any:
    return produce(version, *records, transactional_id=transactional_id)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_transaction_is_verified_as_the_version_asks(tmp_path: Path, version: int) -> None:
    """KIP-890: from version 12 on, the first write adds the partition."""
    async with leader(tmp_path) as (broker, verifier):
        answers = await broker.append(sent(version, transactional(0)))
        (asked,) = verifier.asked
        assert (asked.transactional_id, asked.verify_only) == ("pay", version < 12)
        assert answers == []
        await verifier.answer()
        (result,) = answers[0].responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (NONE, 0)


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (errors.CoordinatorLoadInProgress, dict.fromkeys(VERSIONS, NOT_ENOUGH_REPLICAS)),
        (errors.CoordinatorNotAvailable, dict.fromkeys(VERSIONS, NOT_ENOUGH_REPLICAS)),
        (errors.NotCoordinator, dict.fromkeys(VERSIONS, NOT_ENOUGH_REPLICAS)),
        (errors.NetworkException, dict.fromkeys(VERSIONS, NOT_ENOUGH_REPLICAS)),
        (
            errors.ConcurrentTransactions,
            dict.fromkeys(VERSIONS, NOT_ENOUGH_REPLICAS) | {12: 51, 13: 51},
        ),
        (errors.TransactionAbortable, {3: 48, 7: 48, 10: 48, 11: 120, 12: 120, 13: 120}),
        (errors.ProducerFenced, dict.fromkeys(VERSIONS, 47)),
        (errors.InvalidProducerEpoch, dict.fromkeys(VERSIONS, 47)),
        (errors.InvalidTxnState, dict.fromkeys(VERSIONS, 48)),
        (errors.InvalidProducerIdMapping, dict.fromkeys(VERSIONS, 49)),
    ],
)
async def test_each_version_gets_the_errors_that_it_knows(
    tmp_path: Path, error: type[WireError], codes: dict[int, int]
) -> None:
    async with leader(tmp_path) as (broker, verifier):
        for version, code in codes.items():
            answers = await broker.append(sent(version, transactional(0)))
            await verifier.answer(error("the coordinator's reason"))
            (result,) = answers[0].responses[0].partition_responses
            assert (result.error_code, result.base_offset) == (code, -1), version
            if version >= 8:
                assert result.error_message == "the coordinator's reason"
        assert broker.node.partition.log.log_end_offset == 0


async def test_a_client_that_leaves_drops_what_waits(tmp_path: Path) -> None:
    async with leader(tmp_path) as (broker, verifier):
        request = sent(12, transactional(0))
        answers = await broker.append(request)
        assert request.on_end is not None
        request.on_end()
        assert (answers, verifier.asked[0].answer.cancelled()) == ([], True)
