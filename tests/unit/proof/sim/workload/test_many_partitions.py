"""The topic of many partitions is judged as the main one is."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from strandline_chaos.excused import Excuse
from strandline_proof.sim.topology.topology import CROWD
from strandline_proof.sim.workload.many_partitions import Crowd

COMMITTED = 5


class FakeScene:
    """As much of a world and its oracles as a topic of clients needs."""

    def __init__(self, *, excused: dict[int, Excuse]) -> None:
        self.failures: list[str] = []
        self.sometimes = Counter[str]()
        self._excused = excused
        ghost = SimpleNamespace(seen_to=COMMITTED, excused=None)
        self.oracles: Any = SimpleNamespace(
            sometimes=self.sometimes,
            excused=lambda topic: self._excused,
            ghost_of=lambda index, topic: ghost if topic == CROWD else None,
        )
        loop = SimpleNamespace(now=0.0, fail=lambda error: self.failures.append(str(error)))
        self.world: Any = SimpleNamespace(loop=loop, add_node=lambda name, main: None)
        self.crowd = Crowd(*self.given())
        self.history = self.crowd._history

    def given(self) -> tuple[Any, Any]:
        return self.world, self.oracles

    def send(self, key: int, value: int, offset: int) -> None:
        process = self.history.new_process()
        op = self.history.invoke_send(process, key, value)
        self.history.sent(process, op, key, value, offset)

    def read_back(self, key: int, *pairs: tuple[int, int]) -> None:
        process = self.history.new_process()
        self.history.note("final-read", [process])
        op = self.history.invoke_poll(process)
        self.history.polled(process, op, {key: pairs})

    def judge(self) -> None:
        self.crowd._check(self._excused)


def test_what_was_acknowledged_and_is_read_is_counted() -> None:
    scene = FakeScene(excused={})
    scene.send(17, 0, 0)
    scene.read_back(17, (0, 0))
    scene.judge()
    assert scene.failures == []
    assert scene.sometimes["acknowledged in a topic of many partitions"] == 1


def test_a_record_that_is_missing_in_the_end_is_objected_to() -> None:
    scene = FakeScene(excused={})
    scene.send(17, 0, 0)
    scene.send(17, 1, 1)
    scene.read_back(17, (0, 0))
    scene.judge()
    assert any("1 lost" in failure for failure in scene.failures), scene.failures


def test_what_may_be_missing_is_not_asked_for() -> None:
    scene = FakeScene(excused={17: Excuse()})
    scene.send(17, 1, 1)
    scene.read_back(18)
    scene.judge()
    assert scene.failures == []


def test_an_acknowledgement_above_what_is_committed_is_objected_to_at_once() -> None:
    scene = FakeScene(excused={})
    scene.send(17, 0, COMMITTED)
    assert any("I-19" in failure or CROWD in failure for failure in scene.failures)
