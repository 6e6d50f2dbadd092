"""The oracles of the controller and of brokers' metadata: each objects without its rule."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core import metadata_cache
from strandline_broker.core.controller.brokers import applied_offsets as applied
from strandline_broker.core.controller.brokers import heartbeat, registration
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.replication.isr_proposal import Proposal
from strandline_broker.core.replication.leader import Leader
from strandline_broker.core.replication.partition_state import PartitionState
from strandline_broker.hosts.controller import controller, push_answers
from strandline_broker.hosts.member.envelopes import Envelopes
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.storage.log.log import FlushTicket
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.oracles.controller.control import ControlOracle
from strandline_proof.sim.oracles.controller.decisions import DecisionOracle
from strandline_proof.sim.oracles.replica.applied import AppliedOracle
from strandline_proof.sim.oracles.replica.leaders import LeaderOracle
from strandline_proof.sim.oracles.replica.log_view import Entry
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.plan.plan import Fault, Plan, moment
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    from strandline_broker.storage.log.log import Log

STOP = Fault(1.5, "stop", {"node": "leader-0", "restart_s": 0.5})
SLOW = Fault(1.0, "slow-link", {"a": "controller", "b": "heir-0", "for_s": 2.5, "ms": 500})
KEY = (b"topic", 0)
ANEW = Fault(1.0, "topic-recreate", {"pause_s": 0.0, "partitions": 1})


def broken(*faults: Fault, **topology: Any) -> str:
    """The invariant that a run contradicts."""
    settings = {"partitions": 1, **topology}
    return run_plan(Plan(1, Topology(**settings), faults, chaos_s=4.0)).invariant


def test_a_leader_that_leaves_its_own_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_me(self: Leader) -> list[Any]:
        request = self._request(tuple(m for m in self.isr if m != self._me))
        self._proposal = Proposal(request, joins=frozenset())
        return [request]

    monkeypatch.setattr(Leader, "_propose_shrink", without_me)
    assert broken() == "I-26"


def test_a_decision_that_is_told_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlushTicket, "run", lambda self: None)
    assert broken() == "I-31"


def test_a_log_of_another_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReplicaManager.adopt

    def confuse(self: ReplicaManager, log: Log, high_watermark: int) -> Any:
        partition = real(self, log, high_watermark)
        log.topic_id = bytes(16)
        return partition

    monkeypatch.setattr(ReplicaManager, "adopt", confuse)
    assert broken() == "I-36"


def test_a_broker_that_leaves_out_some_news(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata_cache._topics_after

    def forget(view: Any, envelope: Any) -> Any:
        if not envelope.full and view.topics_by_id and envelope.broker_epoch % 2:
            return dict(view.topics_by_id), dict(view.ids_by_name)
        return real(view, envelope)

    monkeypatch.setattr(metadata_cache, "_topics_after", forget)
    assert broken(STOP) == "I-81"


def test_a_broker_that_is_let_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "may_shut_down", lambda *_: True)
    monkeypatch.setattr(heartbeat, "may_shut_down", lambda *_: True)
    assert broken(SLOW, STOP) == "I-84"


def test_a_replica_that_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ignore(self: Envelopes, stop: Any) -> None:
        return

    monkeypatch.setattr(Envelopes, "_stop", ignore)
    assert broken(ANEW) == "I-87"


def test_a_minimum_of_the_brokers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "strandline_broker.rpc.cluster.push_codec.PartitionState",
        lambda *a, **named: PartitionState(*a, **{**named, "eff_min_insync": 1}),
    )
    assert broken() == "I-91"


def test_a_minimum_of_the_controllers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both go by it, and the log says otherwise."""
    monkeypatch.setattr(ControllerState, "effective_min_isr", lambda *_: 1)
    assert broken() == "I-91"


def test_a_push_that_is_answered_and_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accept_none(self: Envelopes, partition: Any, state: Any, say: Any) -> None:
        return

    monkeypatch.setattr(Envelopes, "_take_role", accept_none)
    assert broken() == "I-81"


def test_a_leader_that_never_applies_its_election(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accept_none(self: Envelopes, partition: Any, state: Any, say: Any) -> None:
        return

    monkeypatch.setattr(Envelopes, "_take_role", accept_none)
    monkeypatch.setattr(applied.Applied, "overdue", lambda self, now_ms, limit_ms: None)
    monkeypatch.setattr(AppliedOracle, "lacks", lambda *_, **named: "")  # or it is seen at once
    assert broken() == "I-94"


def test_a_second_epoch_for_the_same_life() -> None:
    oracle = ControlOracle(Counter(), SimDisk(Random(1), lambda: 0.0))
    life: dict[str, Any] = {"incarnation_id": "a", "eligible": True, "fenced": False}
    first: Any = SimpleNamespace(epoch=3, **life)
    second: Any = SimpleNamespace(epoch=4, **life)
    oracle._on_broker(1, first)
    with pytest.raises(Violation, match="I-32"):
        oracle._on_broker(1, second)


def test_an_offset_that_names_two_decisions() -> None:
    oracle: Any = object.__new__(DecisionOracle)
    oracle._names = {}
    view: Any = SimpleNamespace(is_durable=lambda entry: True)
    state: Any = SimpleNamespace(controller_epoch=1)
    oracle._check_kept(view, [Entry(0, 1, 1, 7, None)], state)
    with pytest.raises(Violation, match="I-92"):
        oracle._check_kept(view, [Entry(0, 1, 1, 8, None)], state)


@pytest.mark.parametrize(
    ("excused", "ends", "objects"),
    [(None, 12, False), (None, 11, True), ("power", 10, False), ("power", 9, True)],
)
def test_who_joins_holds_what_is_committed_or_what_its_leader_calls_so(
    excused: str | None, ends: int, objects: bool
) -> None:
    leaders: Any = object.__new__(LeaderOracle)
    ghost = SimpleNamespace(end=12, excused=excused)
    leaders._replicas = SimpleNamespace(committed={KEY: ghost})
    oracle: Any = object.__new__(DecisionOracle)
    oracle._leaders = leaders
    oracle._nodes = {1: _server(SimpleNamespace(high_watermark=10), 12), 2: _server(None, ends)}
    partition: Any = SimpleNamespace(topic_id=KEY[0], index=KEY[1], leader=1, leader_epoch=6)
    joins: Any = SimpleNamespace(broker_id=2, broker_epoch=7)
    if not objects:
        oracle._check_holds(partition, joins, "partition 0")
        return
    with pytest.raises(Violation, match="I-24"):
        oracle._check_holds(partition, joins, "partition 0")


def _server(leader: Any, end: int) -> Any:
    replica = SimpleNamespace(leader=leader, log=SimpleNamespace(log_end_offset=end))
    process = SimpleNamespace(
        lifecycle=SimpleNamespace(broker_epoch=7),
        replicas=SimpleNamespace(partitions={KEY: replica}),
    )
    return SimpleNamespace(running=True, process=process)


def test_a_controller_that_answers_who_knows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (registration, push_answers):
        monkeypatch.setattr(module, "check_memory", lambda *_, **named: None)
    topology = Topology(partitions=1)
    faults = sorted(moment("old-store", Random(1), topology, 2.1), key=lambda fault: fault.at_s)
    assert run_plan(Plan(1, topology, tuple(faults))).invariant == "I-92"
