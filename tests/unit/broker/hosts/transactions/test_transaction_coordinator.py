"""The periodic work of the transactions' coordinator: timeouts and expiry, over time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_broker.core.transactions.transaction import DATA_EPOCH_MAX
from support.transaction_broker import TransactionBroker, transaction_broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIMEOUTS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY = "transaction.remove.expired.transaction.cleanup.interval.ms"


def is_old(b: TransactionBroker) -> None:
    """The transaction began, and the id was written, very long ago."""
    table = b.txn.transactions.table
    table["x"] = replace(table["x"], started_ms=0, updated_ms=0)


async def until(b: TransactionBroker, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)
            b.replicate()


async def test_a_sweep_aborts_transactions_past_their_timeout(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path, **{TIMEOUTS: "1"}) as b:
        await b.lead(1)
        b.begun(0)
        is_old(b)
        await until(b, lambda: len(b.sender.sent) == 1)
        assert b.state() == "PrepareAbort"


async def test_a_sweep_removes_ids_that_are_not_used(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path, **{EXPIRY: "1"}) as b:
        await b.lead(1)
        b.replicated(b.init())
        is_old(b)
        await until(b, lambda: "x" not in b.txn.transactions.table)


async def test_a_sweep_gets_producer_ids_for_the_last_epoch(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path, **{TIMEOUTS: "1"}) as b:
        await b.lead(1)
        b.begun(0)
        table = b.txn.transactions.table
        b.ids.left = 0
        table["x"] = replace(table["x"], producer_epoch=DATA_EPOCH_MAX, started_ms=0)
        await until(b, lambda: len(b.sender.sent) == 1)
        assert b.ids.asked >= 1
