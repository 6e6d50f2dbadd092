"""Time limits of transactions and of unused ids."""

from __future__ import annotations

from strandline_broker.core.transactions.commands import ExpireIds
from support.transactions_rig import TransactionsRig, code

WEEK_MS = 7 * 86_400_000


def test_a_clock_that_was_set_back_makes_no_transaction_old() -> None:
    """P-148."""
    rig = TransactionsRig()
    rig.begun()
    assert rig.transactions.timed_out(rig.wall_ms - 3_600_000) == []
    assert rig.transactions.timed_out(rig.wall_ms + 60_000) == []
    assert rig.transactions.timed_out(rig.wall_ms + 60_001) == ["x"]


def test_ids_expire_at_rest_only_and_are_not_known_then() -> None:
    """I-173, P-114."""
    rig = TransactionsRig()
    rig.init("empty")
    done = rig.begun("done")
    rig.end(done, name="done")
    rig.marked(name="done")
    rig.begun("open")
    rig.end(rig.begun("decided"), name="decided")
    names = ("decided", "done", "empty", "open")
    rig.wall_ms += WEEK_MS - 1
    assert rig.transactions.expired(names, rig.wall_ms) == ()
    rig.wall_ms += 1
    assert rig.transactions.expired(names, rig.wall_ms) == ("done", "empty")
    rig.run(ExpireIds(names))
    assert sorted(rig.transactions.table) == ["decided", "open"]
    assert code(rig.end(done, name="done")) == 49
    assert rig.transactions.states.total() == 2


def test_an_id_that_is_used_again_meanwhile_stays() -> None:
    rig = TransactionsRig()
    rig.init()
    rig.wall_ms += WEEK_MS
    rig.init()
    rig.run(ExpireIds(("x", "unknown")))
    assert rig.state() == "Empty"
