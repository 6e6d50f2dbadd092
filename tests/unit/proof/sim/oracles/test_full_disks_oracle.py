"""Whoever has no room makes way: from when its event loop knows of it."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.controller.full_disks import FullDiskOracle
from strandline_proof.sim.oracles.violation import Violation

LOG = "/data/t-0"


class Machine:
    """A broker with a full disk that never names a replica."""

    def __init__(self) -> None:
        replica = SimpleNamespace(log=SimpleNamespace(path=LOG))
        lifecycle = SimpleNamespace(
            last_answer_s=None, broker_epoch=4, _config=SimpleNamespace(node_id=1)
        )
        process = SimpleNamespace(
            lifecycle=lifecycle, replicas=SimpleNamespace(partitions={("t", 0): replica})
        )
        broker = SimpleNamespace(epoch=4, offline_replicas=[], condition_of=lambda *_: None)
        self.state: Any = SimpleNamespace(brokers={1: broker})
        disk = SimpleNamespace(capacity=100, used=100)
        self.node: Any = SimpleNamespace(name="broker-1", process=process, refused_in=[], disk=disk)
        self.oracle = FullDiskOracle(Counter())

    def is_answered(self, times: int) -> None:
        lifecycle = self.node.process.lifecycle
        for _ in range(times):
            lifecycle.last_answer_s = (lifecycle.last_answer_s or 0.0) + 0.2
            self.oracle.on_step(self.node, self.state)


def test_what_the_event_loop_knows_is_named_by_the_second_answer() -> None:
    machine = Machine()
    machine.is_answered(3)
    machine.node.refused_in.append(f"{LOG}/00000000000000000000.log")
    machine.is_answered(1)
    with pytest.raises(Violation, match="nothing of it is named"):
        machine.is_answered(1)


def test_a_log_that_is_not_in_use_says_nothing() -> None:
    machine = Machine()
    machine.is_answered(1)
    machine.node.refused_in.append("/data/t-1/00000000000000000000.log")
    machine.is_answered(3)


def test_one_in_use_counts_beside_one_that_is_not() -> None:
    machine = Machine()
    machine.is_answered(1)
    for name in ("t-0", "t-1"):
        machine.node.refused_in.append(f"/data/{name}/00000000000000000000.log")
    with pytest.raises(Violation):
        machine.is_answered(2)


def test_a_new_process_begins_with_what_it_is_refused_itself() -> None:
    machine = Machine()
    machine.is_answered(1)
    machine.node.refused_in.append(f"{LOG}/00000000000000000000.log")
    machine.is_answered(1)
    machine.node.process = SimpleNamespace(**vars(machine.node.process))
    machine.node.refused_in = []
    machine.is_answered(3)
