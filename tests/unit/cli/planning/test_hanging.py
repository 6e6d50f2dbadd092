"""The transactions that no coordinator will end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline import TopicPartition
from strandline.transaction_types import ProducerDescription, TransactionDescription
from strandline_cli.commands.transaction.abort import producer_at
from strandline_cli.errors import CliError
from strandline_cli.planning.hanging import hanging_in, suspects

TP = TopicPartition("orders", 0)
OPEN = ProducerDescription(7, 3, 5, 1_000, 0, 40)
KNOWN = TransactionDescription("pay", "Ongoing", 7, 3, 60_000, 900, frozenset([TP]), 1)


def test_only_open_and_old_transactions_are_suspect() -> None:
    fresh, ended = (
        replace(OPEN, last_timestamp_ms=2_000),
        replace(OPEN, transaction_start_offset=None),
    )
    assert suspects({TP: [OPEN, fresh, ended]}, 1_500) == [(TP, OPEN)]


@pytest.mark.parametrize(
    ("listed", "described", "hangs"),
    [
        ({7: "pay"}, {"pay": KNOWN}, False),
        ({}, {}, True),
        ({7: "pay"}, {"pay": replace(KNOWN, partitions=frozenset())}, True),
        ({7: "pay"}, {"pay": replace(KNOWN, producer_id=8)}, True),
    ],
    ids=["ongoing", "no id", "another transaction", "another producer"],
)
def test_a_transaction_hangs_that_its_coordinator_does_not_have(
    listed: dict[int, str], described: dict[str, TransactionDescription], *, hangs: bool
) -> None:
    found = hanging_in([(TP, OPEN)], listed, described)
    assert bool(found) is hangs
    if found:
        assert (found[0].topic, found[0].start_offset, found[0].producer_id) == ("orders", 40, 7)


def test_the_transaction_to_abort_is_named_by_its_start() -> None:
    assert producer_at([OPEN], 40, "orders:0") is OPEN
    with pytest.raises(CliError, match="begins at offset 41: open ones begin at 40"):
        producer_at([OPEN], 41, "orders:0")
    with pytest.raises(CliError, match="no transaction is open"):
        producer_at([replace(OPEN, transaction_start_offset=None)], 40, "orders:0")
