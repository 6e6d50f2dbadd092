"""Nobody is fenced who is heard and goes on applying (I-94), judged by what had been heard when it
was decided.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import BrokerRegistrationChangeRecord
from strandline_proof.sim.oracles.controller.fencings import RECENT_S, FencingOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.records import AnyRecord

ONE, EPOCH = BrokerId(1), BrokerEpoch(7)


class Scene:
    """A controller, and broker 1, which has been heard three times and applied more each time."""

    def __init__(self) -> None:
        self.loop = SimpleNamespace(now=1.0)
        self.known: dict[int, Any] = {}
        self.brokers: dict[int, Any] = {}
        self.pipeline = SimpleNamespace(pending=())
        self.controller: Any = SimpleNamespace(
            state=SimpleNamespace(brokers=self.brokers), told={}, _pipeline=self.pipeline
        )
        process = SimpleNamespace(lifecycle=SimpleNamespace(broker_epoch=EPOCH))
        node: Any = SimpleNamespace(running=True, stopping=False, process=process)
        control: Any = SimpleNamespace(brokers=self.known)
        loop: Any = self.loop
        self.oracle = FencingOracle({1: node}, control, loop)
        self.become(fenced=False)
        for applied in (1, 2, 3):
            self.hear(applied)

    def step(self) -> None:
        self.oracle.on_step(self.controller)
        self.known.update(self.brokers)

    def become(self, *, fenced: bool) -> None:
        """What is decided is committed."""
        self.brokers[1] = SimpleNamespace(epoch=EPOCH, fenced=fenced)
        self.pipeline.pending = ()
        self.step()

    def decide(self, fenced: bool | None) -> None:
        record = BrokerRegistrationChangeRecord(broker_id=ONE, broker_epoch=EPOCH, fenced=fenced)
        pending: tuple[AnyRecord, ...] = (record,)
        self.pipeline.pending = pending
        self.step()

    def hear(self, applied: int) -> None:
        self.controller.told[ONE] = Heartbeat(
            ONE,
            EPOCH,
            MetadataOffset(0),
            want_fence=False,
            want_shut_down=False,
            number=applied,
            applied_partitions=applied,
        )
        self.step()

    def passes(self, seconds: float) -> None:
        self.loop.now += seconds
        self.step()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_broker_that_goes_on_is_not_fenced(scene: Scene) -> None:
    scene.passes(0.9 * RECENT_S)
    with pytest.raises(Violation, match=r"I-94: broker 1 is fenced, was heard 0\.360 s ago"):
        scene.decide(fenced=True)


def test_what_is_heard_while_the_fencing_is_written_comes_too_late(scene: Scene) -> None:
    scene.passes(1.1 * RECENT_S)
    scene.decide(fenced=True)
    scene.hear(4)
    scene.passes(0.9 * RECENT_S)
    scene.become(fenced=True)


def test_what_was_judged_once_permits_no_other_fencing(scene: Scene) -> None:
    scene.passes(1.1 * RECENT_S)
    scene.decide(fenced=True)
    scene.become(fenced=True)
    scene.decide(fenced=False)
    scene.become(fenced=False)
    scene.hear(4)
    with pytest.raises(Violation, match="I-94"):
        scene.become(fenced=True)  # it was never seen to be decided


def test_another_decision_about_it_is_no_fencing(scene: Scene) -> None:
    scene.decide(fenced=None)
    scene.become(fenced=False)
