"""Which logs the oracle of transactions looks at."""

from types import SimpleNamespace
from typing import Any

from strandline_proof.sim.oracles.transactions.watch import TransactionOracle

PLACE, KEY = ("ledger", 0), (b"t", 0)


def broker(name: str, *keys: tuple[bytes, int]) -> SimpleNamespace:
    partitions = dict.fromkeys(keys)
    process = SimpleNamespace(replicas=SimpleNamespace(partitions=partitions))
    return SimpleNamespace(name=name, process=process)


def test_a_replica_that_was_moved_away_has_no_index_to_judge() -> None:
    """Its directory is gone, and its log was looked at while it was there."""
    oracle: Any = object.__new__(TransactionOracle)
    view = object()
    oracle._world = SimpleNamespace(brokers=[broker("broker-1", KEY), broker("broker-2")])
    oracle._replicas = SimpleNamespace(known=lambda node, key: view)
    scan = SimpleNamespace(view=view, update=lambda: [])
    oracle._scans = {("broker-1", PLACE): scan, ("broker-2", PLACE): scan}
    assert list(oracle.scans(PLACE, KEY)) == [("broker-1", scan)]
