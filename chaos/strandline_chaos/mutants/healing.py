"""Bugs of a replica with damage: when it counts, and when it cuts what it will copy."""

from __future__ import annotations

from typing import Final

from strandline_chaos.mutants.mutant import Edit, Mutant, Needs
from strandline_chaos.sim.plan import Fault

_LEADER: Final = "strandline_broker/core/leader.py"
_WATCH: Final = "strandline_broker/hosts/damage_watch.py"
_LIFECYCLE: Final = "strandline_broker/hosts/lifecycle.py"
_OFFLINE: Final = "strandline_broker/core/controller/offline_replicas.py"

_COMES_AND_GOES: Final = Needs(
    topology={
        "partitions": 1,
        "flush_policy": "replicated",
        "segment_bytes": 400,
        "scrub_ms": 400,
        "sends_per_s": 12,
    },
    kinds=("pause",),
    aimed=(
        Fault(0.6, "misread", {"node": "broker-2", "for_s": 7.5, "rate": 0.1}),
        Fault(0.7, "slow-link", {"a": "broker-2", "b": "controller", "for_s": 7.5, "ms": 400}),
    ),
)
"""What reads badly reads well a moment later, and the controller's word of it comes late."""

HEALING: Final = (
    Mutant(
        "heals-before-it-is-known",
        "I-15, I-41",
        "a damaged replica cuts its log before its damage without a word of the controller, which"
        " may count it by then",
        (
            Edit(
                _WATCH,
                "        if context.me in state.elr or any(m.broker_id == context.me for m in"
                " state.isr):\n            return False\n",
                "",
            ),
            Edit(
                _WATCH,
                "        if known_at is None or context.metadata.applied_offset + 1 < known_at:\n"
                "            return False\n",
                "",
            ),
        ),
        _COMES_AND_GOES,
    ),
    Mutant(
        "damage-known-from-an-earlier-answer",
        "I-15, I-41",
        "a damaged replica takes the controller's answer about damage that was gone since for one"
        " about the damage that it has",
        (
            Edit(
                _LIFECYCLE,
                "                self._known_at = {key: at for key, at in self._known_at.items()"
                " if key in told}\n",
                "",
            ),
        ),
        _COMES_AND_GOES,
    ),
    Mutant(
        "damaged-replica-does-not-make-way",
        "I-88",
        "a replica that lacks a damaged range stays in an ISR with sound members, and never heals",
        (
            Edit(
                _OFFLINE,
                "        case ReplicaCondition.DAMAGED if _any_sound(partition, others or",
                "        case ReplicaCondition.DAMAGED if not brokers and (others or",
            ),
        ),
        Needs(topology={"scrub_ms": 1500}, kinds=("bit-flip", "misread", "kill")),
    ),
    Mutant(
        "waits-for-a-replica-that-heals",
        "I-9, P-58",
        "what a leader commits waits for a replica that was in sync a moment ago, until it has"
        " lagged for long enough, although the controller has taken it out for its damage",
        (
            Edit(
                _LEADER,
                "        return current and broker_id not in self._offline\n",
                "        return current\n",
            ),
        ),
        Needs(topology={"scrub_ms": 400}, kinds=("bit-flip", "misread")),
    ),
)
