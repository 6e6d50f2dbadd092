"""Bugs of reassignments: their end, their memory, their notices."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_REASSIGNMENT: Final = "strandline_broker.core.controller.partitions.reassignment"
_PUSH: Final = "strandline_broker.core.controller.push"
_ENVELOPES: Final = "strandline_broker.hosts.member.envelopes"

_MOVES: Final = ("reassign", "reassign-cancel", "reassign-override")
_NEEDS: Final = Needs(topology={"brokers": 4}, kinds=(*_MOVES, "kill", "isolate"))

_ALONE: Final = (
    Fault(1.0, "kill", {"node": "broker-1", "restart_s": 6.5}),
    Fault(2.3, "reassign-cancel", {"partition": 0, "target": [4, 1], "then_s": 3.0}),
    Fault(3.4, "kill", {"node": "broker-2", "restart_s": 4.5}),
    Fault(3.9, "kill", {"node": "broker-3", "restart_s": 4.5}),
)
"""The added replica is the only one in sync when the cancel comes."""

REASSIGNING: Final = (
    Mutant(
        "reassignment-ends-with-the-added",
        "P-68, I-85",
        "a reassignment ends when the added replicas are in the ISR, though a remaining one is not",
        (
            Edit(
                _REASSIGNMENT,
                "not set(target) <= set(partition.isr)",
                "not set(partition.adding) <= set(partition.isr)",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "removal-within-the-epoch",
        "P-26, I-85",
        "a replica is removed without a new leader epoch, where it does not lead",
        (
            Edit(
                _REASSIGNMENT,
                "    if not set(partition.replicas) <= set(replicas):\n",
                "    if partition.leader not in replicas:\n",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "cancel-forgets-the-order",
        "I-86",
        "a cancel goes back to the old replicas in the order that the target had brought",
        (
            Edit(
                _REASSIGNMENT,
                "back = _with_replicas(state, partition, partition.original, state.brokers)",
                "old = tuple(b for b in partition.replicas if b in partition.original)\n"
                "    back = _with_replicas(state, partition, old, state.brokers)",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "cancel-without-a-member",
        "I-86",
        "a cancel is accepted though no replica that would stay is in sync",
        (
            Edit(
                _REASSIGNMENT,
                "        if leader == NO_LEADER:\n            return None\n",
                "",
            ),
        ),
        Needs(topology={"brokers": 4, "partitions": 1}, kinds=("slow-link",), aimed=_ALONE),
    ),
    Mutant(
        "override-from-the-target",
        "I-85, I-86",
        "a new target replaces the one under way as the starting point, and the original replicas"
        " are forgotten",
        (
            Edit(
                _REASSIGNMENT,
                "    original = partition.original or partition.replicas\n",
                "    original = partition.target\n",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "removed-leader-stays",
        "I-22, I-85",
        "a reassignment that removes the leader elects no other",
        (
            Edit(
                _REASSIGNMENT,
                "        if leader not in isr:\n",
                "        if leader not in partition.isr:\n",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "removed-replica-is-not-told",
        "I-85, I-87",
        "a broker whose replica is removed gets no StopReplica",
        (
            Edit(
                _PUSH,
                "        removed_replicas=tuple(_removed_replicas(state, changes)),\n",
                "",
            ),
        ),
        _NEEDS,
    ),
    Mutant(
        "old-stop-replica-deletes",
        "P-18, I-85",
        "a StopReplica deletes a replica that a newer leader epoch has assigned again",
        (
            Edit(
                _ENVELOPES,
                "            return  # overtaken by a newer assignment (P-18)\n",
                "            pass\n",
            ),
        ),
        _NEEDS,
        equivalent="the one push stream applies envelopes in order and none of them twice, so"
        " no StopReplica comes after a newer assignment; the rule is the second line of defence",
    ),
)
