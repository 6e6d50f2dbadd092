"""An overtaken heartbeat counts for nothing (I-100)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import OfflineReplica
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proof.sim.oracles.controller.heartbeats import HeartbeatOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicId

SOUND: frozenset[OfflineReplica] = frozenset()
DAMAGED = frozenset({OfflineReplica(TopicId(bytes(16)), 0, ReplicaCondition.DAMAGED)})
ONE = BrokerId(1)


class Scene:
    """A controller that has broker 1, in epoch 7 at first."""

    def __init__(self) -> None:
        self.oracle = HeartbeatOracle()
        self.broker = SimpleNamespace(broker_id=ONE, epoch=BrokerEpoch(7), offline_replicas=SOUND)
        self.controller: Any = SimpleNamespace(
            state=SimpleNamespace(brokers={ONE: self.broker}), told={}
        )

    def hear(self, number: int, named: frozenset[OfflineReplica]) -> None:
        self.controller.told[ONE] = Heartbeat(
            ONE,
            self.broker.epoch,
            MetadataOffset(0),
            want_fence=False,
            want_shut_down=False,
            number=number,
            offline_replicas=named,
        )
        self.oracle.on_step(self.controller)

    def decide(self, named: frozenset[OfflineReplica]) -> None:
        self.broker.offline_replicas = named
        self.oracle.on_step(self.controller)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.hear(1, SOUND)
    scene.hear(2, DAMAGED)
    scene.decide(DAMAGED)
    return scene


def test_what_an_older_one_has_said_takes_nothing_back(scene: Scene) -> None:
    with pytest.raises(Violation, match="I-100"):
        scene.decide(SOUND)


def test_a_newer_one_takes_it_back_and_names_it_again(scene: Scene) -> None:
    scene.hear(3, SOUND)
    scene.hear(4, DAMAGED)
    scene.decide(SOUND)  # decided late: 4 had come by then
    scene.decide(DAMAGED)


def test_an_older_one_counts_for_nothing(scene: Scene) -> None:
    scene.hear(2, DAMAGED)  # the first of a stream may arrive twice
    with pytest.raises(Violation, match="heartbeat 1 of broker 1 counts, and came after 2"):
        scene.hear(1, SOUND)


def test_another_incarnation_counts_anew(scene: Scene) -> None:
    scene.broker.epoch = BrokerEpoch(9)
    scene.broker.offline_replicas = SOUND
    scene.hear(1, SOUND)
