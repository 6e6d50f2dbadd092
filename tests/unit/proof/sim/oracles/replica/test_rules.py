"""I-20: who may append while too few are in sync."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline_proof.sim.oracles.replica import rules
from strandline_proof.sim.oracles.replica.rules import RuleOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import LOOSE, TOPIC

KEY = (b"i" * 16, 0)


class Replica:
    """Which is told apart by who it is, as a partition is."""

    state = None

    def __init__(self, log: SimpleNamespace, leader: SimpleNamespace) -> None:
        self.log, self.leader = log, leader


def append(monkeypatch: pytest.MonkeyPatch, topic: str, *, spare: int) -> None:
    """To a partition that somebody leads, with so many more in sync than it needs."""
    monkeypatch.setattr(rules, "_is_noted", lambda node, path, epoch: True)
    oracle = RuleOracle(cast("Any", SimpleNamespace(spare=lambda key, epoch: spare)))
    log = SimpleNamespace(topic=topic, topic_id=KEY[0], path="/data", log_start_offset=0)
    leader = SimpleNamespace(leader_epoch=1, partition_epoch=1, isr=())
    partition: Any = Replica(log, leader)
    node: Any = SimpleNamespace()
    entry: Any = SimpleNamespace(base=3)
    oracle.on_change(node, KEY, partition, [], "here")
    oracle.on_change(node, KEY, partition, [entry], "here")


def test_nothing_is_appended_below_the_minimum_for_who_waits_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(monkeypatch, TOPIC, spare=0)
    with pytest.raises(Violation, match="I-20"):
        append(monkeypatch, TOPIC, spare=-1)


def test_who_asks_for_fewer_acks_does_not_ask_for_the_minimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(monkeypatch, LOOSE, spare=-1)
