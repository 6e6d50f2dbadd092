"""The transactions of one replica's log."""

from types import SimpleNamespace
from typing import Any

from strandline_proof.sim.oracles.replica.log_view import Entry
from strandline_proof.sim.oracles.transactions.scan import Parsed, Scan

FIRST = Entry(0, 3, 1, 7, None)
LAST = Entry(3, 4, 2, 8, FIRST.identity)


def test_a_log_of_the_same_end_may_hold_another_batch_there() -> None:
    """The batch of a deposed leader is no transaction's marker of its successor."""
    view: Any = SimpleNamespace(entries=[FIRST, LAST])
    scan = Scan(view, Parsed(), "broker-1 ledger:0")
    assert scan.holds(FIRST)
    assert scan.holds(LAST)
    assert not scan.holds(LAST._replace(epoch=3, crc=9))
    assert not scan.holds(Entry(4, 5, 3, 9, LAST.identity))
    assert not Scan(SimpleNamespace(entries=[]), Parsed(), "").holds(FIRST)  # type: ignore[arg-type] # enough of a view
