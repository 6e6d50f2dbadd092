"""The table of transactional ids: ids at rest cost the garbage collector nothing."""

from __future__ import annotations

import gc
from dataclasses import fields, replace

import pytest

from strandline_broker.core.transactions.transaction import Transaction, TransactionState
from strandline_broker.core.transactions.transaction_table import _FIELDS, TransactionTable
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.transactions_rig import T0

AT_REST = Transaction(
    producer_id=ProducerId(2**40),
    producer_epoch=ProducerEpoch(300),
    timeout_ms=60_000,
    state=TransactionState.COMPLETE_COMMIT,
    updated_ms=1_700_000_000_000,
    started_ms=1_700_000_000_001,
    previous_producer_id=ProducerId(2**41),
    next_producer_id=ProducerId(2**42),
    version=2,
    last_producer_epoch=ProducerEpoch(299),
)


def test_every_field_comes_back() -> None:
    assert {"state", *_FIELDS} == {field.name for field in fields(Transaction)}
    table = TransactionTable()
    table["x"] = AT_REST
    table["y"] = replace(AT_REST, state=TransactionState.ONGOING, partitions=(T0,))
    assert table["x"] == AT_REST
    assert table["y"].partitions == (T0,)
    assert table.state_of("y") is TransactionState.ONGOING
    assert table.state_of("z") is None
    assert ("x" in table, "z" in table, len(table), list(table)) == (True, False, 2, ["x", "y"])


def test_a_copy_stays_as_it_is() -> None:
    table = TransactionTable()
    table["x"] = AT_REST
    copy = table.copy()
    table["x"] = replace(AT_REST, version=0)
    del table["x"]
    assert dict(copy) == {"x": AT_REST}
    with pytest.raises(KeyError):
        table["x"]


def test_the_garbage_collector_does_not_track_an_id_at_rest() -> None:
    table = TransactionTable()
    table["x"] = AT_REST
    gc.collect()
    assert not gc.is_tracked(table._rows["x"])
