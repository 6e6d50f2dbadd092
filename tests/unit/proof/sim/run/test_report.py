"""A failure is told once and in words: the invariant's number, then what contradicts it."""

from __future__ import annotations

from strandline_broker.core.replication.partition_state import IsrMember
from strandline_proof.sim.oracles.violation import Violation, told_isr, told_member
from strandline_proof.sim.plan.plan import Plan
from strandline_proof.sim.run.run import RunResult
from strandline_proof.sim.topology.topology import Topology
from strandline_proto.ids import BrokerEpoch, BrokerId

PLAN = Plan(1, Topology(), ())
MEMBER = IsrMember(BrokerId(2), BrokerEpoch(7))


def test_the_number_of_an_invariant_is_said_once() -> None:
    result = RunResult(PLAN, Violation("I-9", "broker-1 t-0: committed 5"))
    assert (result.invariant, result.what) == ("I-9", "broker-1 t-0: committed 5")


def test_another_failure_is_told_as_it_is() -> None:
    result = RunResult(PLAN, AssertionError("no such thing"))
    assert (result.invariant, result.what) == ("AssertionError", "no such thing")


def test_members_of_an_isr_are_told_in_words() -> None:
    assert told_member(MEMBER) == "broker 2 of epoch 7"
    assert (
        told_isr((MEMBER, IsrMember(BrokerId(3), BrokerEpoch(9)))) == "[2 (epoch 7), 3 (epoch 9)]"
    )
    assert told_isr(()) == "[]"
    assert told_isr(None) == "no other ISR"
