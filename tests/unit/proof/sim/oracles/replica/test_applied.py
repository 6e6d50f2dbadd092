"""What a broker has carried out is what roles it has (I-81)."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.oracles.controller.decided import Decided
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.replica.applied import AppliedOracle
from strandline_proof.sim.oracles.violation import Violation

ID = b"t" * 16
KEY = ID, 0
LOG = "/data/t-0"
SEGMENT = f"{LOG}/00000000000000000000.log"
THEN = Decided(20, (1, 2), (1, 2), 1, 3, 5)


class Scene:
    """Broker 1, which was pushed what was decided at offset 20."""

    def __init__(self, **replica: Any) -> None:
        self.partition = SimpleNamespace(
            gate=SimpleNamespace(locked=lambda: False),
            state=SimpleNamespace(leader_epoch=3, partition_epoch=5),
            role=SimpleNamespace(),
            leader=SimpleNamespace(leader_epoch=3),
            log=SimpleNamespace(path=LOG),
        )
        self.partition.__dict__.update(replica)
        self.partitions = {KEY: self.partition}
        process = SimpleNamespace(replicas=SimpleNamespace(partitions=self.partitions))
        self.node: Any = SimpleNamespace(
            name="broker-1",
            incarnation=1,
            stopping=False,
            process=process,
            disk=SimDisk(Random(1), lambda: 0.0),
            failed_before=0,
        )
        log: Any = SimpleNamespace(
            keys=lambda: [KEY],
            newest=lambda key: THEN,
            as_of=lambda key, offset: THEN if offset >= THEN.offset else None,
        )
        nodes: Any = {"broker-1": self.node}
        self.ghost = Committed(0, min_insync=2, always=True)
        replicas: Any = SimpleNamespace(ghost=lambda key: self.ghost)
        self.oracle = AppliedOracle(nodes, log, replicas)

    def leads_no_more(self) -> None:
        self.partition.role = self.partition.leader = None

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


@pytest.mark.parametrize("refusal", [{"want_full": True}, {"error_code": 1}])
def test_a_push_that_is_refused_carries_out_nothing_that_has_failed(
    refusal: dict[str, Any],
) -> None:
    scene = Scene(state=OLDER)
    scene.answers(failed=True)
    scene.answers(**refusal)
    assert scene.oracle.lacks(scene.node, 20) == ""
    with pytest.raises(Violation, match="was decided"):
        scene.answers()


def test_another_life_has_answered_nothing() -> None:
    scene = Scene()
    scene.answers()
    scene.node.incarnation = 2
    assert scene.oracle.offset(scene.node) == -1


def refused(scene: Scene, path: str = SEGMENT, fault: str = "read error") -> None:
    scene.node.disk.struck.append((fault, path))


def test_who_has_led_leads_no_more_once_its_disk_refuses_to_read_the_log() -> None:
    scene = Scene()
    scene.answers()
    scene.ghost.on_led(3, "broker-1", 1)
    refused(scene)
    assert scene.oracle.lacks(scene.node, 20) == ""
    scene.leads_no_more()
    assert scene.oracle.lacks(scene.node, 20) == ""
    scene.answers()  # of other replicas, which took longer


@pytest.mark.parametrize("what", ["nothing", "another file", "another fault", "the life before"])
def test_a_role_that_no_disk_has_ended_is_asked_for(what: str) -> None:
    scene = Scene()
    scene.ghost.on_led(3, "broker-1", 1)
    if what == "another file":
        refused(scene, "/data/t-01/00000000000000000000.log")
    if what == "another fault":
        refused(scene, fault="misread")
    if what == "the life before":
        refused(scene)
        scene.node.failed_before = 1
    scene.leads_no_more()
    with pytest.raises(Violation, match="I-81"):
        scene.answers()


@pytest.mark.parametrize("led", [None, (2, "broker-1", 1), (3, "broker-1", 2), (3, "broker-2", 1)])
def test_an_unread_log_is_no_reason_for_a_role_that_was_never_taken(
    led: tuple[int, str, int] | None,
) -> None:
    scene = Scene()
    if led is not None:
        scene.ghost.on_led(*led)
    refused(scene)
    scene.leads_no_more()
    with pytest.raises(Violation, match="I-81"):
        scene.answers()


@pytest.mark.parametrize("fault", ["read error", "write error", "misread", "no room"])
def test_what_a_disk_has_kept_it_from_an_answer_that_is_under_way_may_say(fault: str) -> None:
    scene = Scene(state=OLDER)
    assert "was decided" in scene.oracle.lacks(scene.node, 20)
    if fault == "no room":
        scene.node.disk.no_room.add(f"{LOG}/leader-epoch-checkpoint.1.tmp")
    else:
        refused(scene, fault=fault)
    assert scene.oracle.lacks(scene.node, 20) == ""
    scene.answers(failed=True)
    assert scene.oracle.lacks(scene.node, 20) == ""
    with pytest.raises(Violation, match="was decided"):
        scene.answers()


@pytest.mark.parametrize("what", ["another replica", "a stall", "the life before"])
def test_a_disk_that_has_refused_nothing_of_it_is_no_reason(what: str) -> None:
    scene = Scene(state=OLDER)
    if what == "another replica":
        refused(scene, "/data/t-01/00000000000000000000.log")
    if what == "a stall":
        refused(scene, fault="stall")
    if what == "the life before":
        refused(scene)
        scene.node.failed_before = 1
    assert "was decided" in scene.oracle.lacks(scene.node, 20)


@pytest.mark.parametrize(
    "replica", [{"state": OLDER}, {"role": SimpleNamespace()}], ids=["in an older epoch", "follows"]
)
def test_an_unread_log_is_no_reason_for_another_role(replica: dict[str, Any]) -> None:
    scene = Scene()
    scene.ghost.on_led(3, "broker-1", 1)
    refused(scene)
    scene.leads_no_more()
    scene.partition.__dict__.update(replica)
    with pytest.raises(Violation, match="I-81"):
        scene.answers()
