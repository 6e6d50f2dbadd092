"""What a broker has carried out is what roles it has (I-81)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.applied import AppliedOracle
from strandline_proof.sim.oracles.decided import Decided
from strandline_proof.sim.oracles.violation import Violation

ID = b"t" * 16
KEY = ID, 0
THEN = Decided(20, (1, 2), (1, 2), 1, 3, 5)


class Scene:
    """Broker 1, which was pushed what was decided at offset 20."""

    def __init__(self, **replica: Any) -> None:
        self.partition = SimpleNamespace(
            gate=SimpleNamespace(locked=lambda: False),
            state=SimpleNamespace(leader_epoch=3, partition_epoch=5),
            leader=SimpleNamespace(leader_epoch=3),
        )
        self.partition.__dict__.update(replica)
        self.partitions = {KEY: self.partition}
        process = SimpleNamespace(replicas=SimpleNamespace(partitions=self.partitions))
        self.node: Any = SimpleNamespace(
            name="broker-1",
            incarnation=1,
            stopping=False,
            process=process,
            disk=SimpleNamespace(struck=[]),
        )
        log: Any = SimpleNamespace(
            keys=lambda: [KEY],
            newest=lambda key: THEN,
            as_of=lambda key, offset: THEN if offset >= THEN.offset else None,
        )
        nodes: Any = {"broker-1": self.node}
        self.oracle = AppliedOracle(nodes, log)

    def answers(self, *, failed: bool = False, **answer: Any) -> None:
        heard = self.oracle.overhear("broker-1")
        pushed = SimpleNamespace(topic_id=ID, partitions=[SimpleNamespace(partition_index=0)])
        heard.on_read(SimpleNamespace(full=False, prev_metadata_offset=19, leader_and_isr=[pushed]))
        said = {"error_code": 0, "want_full": False, "applied_metadata_offset": 20}
        heard.on_said(SimpleNamespace(topics=[pushed] if failed else [], **{**said, **answer}))
        self.oracle.on_step(self.node)


def test_a_role_that_was_taken_is_applied() -> None:
    scene = Scene()
    assert scene.oracle.offset(scene.node) == -1
    scene.answers()
    assert scene.oracle.offset(scene.node) == 20
    assert scene.oracle.lacks(scene.node, 20) == ""


OLDER = SimpleNamespace(leader_epoch=2, partition_epoch=4)


@pytest.mark.parametrize("replica", [{"state": OLDER}, {"state": None}, {"leader": None}])
def test_an_answer_without_the_role(replica: dict[str, Any]) -> None:
    with pytest.raises(Violation, match="I-81"):
        Scene(**replica).answers()


def test_a_replica_that_is_not_there() -> None:
    scene = Scene()
    scene.partitions.clear()
    with pytest.raises(Violation, match="is not here"):
        scene.answers()


def test_what_is_said_to_have_failed_or_was_decided_later_is_not_asked_for() -> None:
    Scene(state=OLDER).answers(failed=True)
    Scene(state=OLDER).answers(applied_metadata_offset=19)
    Scene(state=OLDER).answers(error_code=1)
    Scene(state=OLDER).answers(want_full=True)


def test_another_life_has_answered_nothing() -> None:
    scene = Scene()
    scene.answers()
    scene.node.incarnation = 2
    assert scene.oracle.offset(scene.node) == -1
