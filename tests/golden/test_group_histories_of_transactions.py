"""Histories that have broken coordinators of groups, by number and name: offsets of transactions,
at a broker with a real log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_proto.batch import end_marker, iter_headers
from strandline_proto.errors import UnstableOffsetCommit
from support.group_broker import answered, group_broker
from support.transactional_broker import TransactionalProducer

if TYPE_CHECKING:
    from pathlib import Path


async def test_22_txn_offset_order(tmp_path: Path) -> None:
    """The same after a load: the plain commit's record is above the staged one's, then below."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        await producer.commit(100)
        await answered(b.commit(110))
        await b.follow(2)
        await b.lead(3, isr=(1,))
        await b.serves()
        await producer.end()
        assert (await producer.fetch()).offset == 110
        await answered(b.commit(120))
        await producer.commit(130)
        await producer.end()
        assert (await producer.fetch()).offset == 130
        await b.follow(4)
        await b.lead(5, isr=(1,))
        await b.serves()
        assert (await producer.fetch()).offset == 130


@pytest.mark.parametrize("is_commit", [True, False])
async def test_23_stable_fetch(tmp_path: Path, is_commit: bool) -> None:
    """Unstable from the staged record to the marker, over a failover; and after it the answer waits
    until the marker is committed (I-104).
    """
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        commit = b.commit(5)
        b.replicate()
        await answered(commit)
        producer = TransactionalProducer(b)
        staged = producer.commit(9)
        await b.turns()
        b.replicate()
        await staged
        assert isinstance((await producer.fetch()).error, UnstableOffsetCommit)
        assert (await producer.fetch(stable=False)).offset == 5
        await b.follow(2)
        await b.lead(3)
        b.replicate()
        await b.serves()
        assert isinstance((await producer.fetch()).error, UnstableOffsetCommit)
        ended = producer.end(is_commit=is_commit)
        await b.turns()
        reading = b.submit(_fetch())
        await b.turns()
        assert not reading.done()
        assert not ended.done()
        b.replicate()
        await ended
        assert (await producer.fetch()).offset == (9 if is_commit else 5)
        assert reading.done()


async def test_24_marker_then_read(tmp_path: Path) -> None:
    """Two TxnOffsetCommits in one transaction, with sequence 0 both (P-129). Once the marker is
    answered both are fetched (P-104).
    """
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        for offset, partition in ((5, 0), (6, 1), (7, 0)):
            commit = producer.commit(offset, partition=partition)
            await asyncio.wait([commit])
            assert commit.exception() is None, "none counts as a batch outside the transaction"
        await producer.end()
        assert [(await producer.fetch(p)).offset for p in (0, 1)] == [7, 6]
        assert len(producer.verifier.asked) == 1, "the transaction was open after the first"
        log = b.partition.log
        data = log.read(0, max_bytes=1 << 20, limit=log.log_end_offset).records
        headers = [header for _, header in iter_headers(data)]
        assert [h.base_sequence for h in headers] == [0, 0, 0, -1]
        assert [(h.is_transactional, h.is_control) for h in headers] == [
            (True, False),
            (True, False),
            (True, False),
            (True, True),
        ]
        at, last = list(iter_headers(data))[-1]
        marker = end_marker(data, at, last)
        assert marker is not None
        assert (marker.is_commit, marker.coordinator_epoch) == (True, 1)


def _fetch() -> object:
    from strandline_broker.core.groups.commands import FetchOffsets

    return FetchOffsets(group_id="g", require_stable=True)
