"""Bugs of a replica with damage: when it counts, and when it cuts what it will copy."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_LEADER: Final = "strandline_broker.core.replication.leader"
_WATCH: Final = "strandline_broker.hosts.upkeep.damage_watch"
_LIFECYCLE: Final = "strandline_broker.hosts.member.lifecycle"
_LOG_DIRS: Final = "strandline_broker.hosts.disks.log_dirs"
_FULL_DIRS: Final = "strandline_broker.hosts.disks.full_dirs"
_CONTROLLER: Final = "strandline_broker.hosts.controller.controller"
_OFFLINE: Final = "strandline_broker.core.controller.partitions.offline_replicas"

_LINK: Final = {"a": "broker-2", "b": "controller"}

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
        Fault(0.7, "slow-link", {**_LINK, "for_s": 7.5, "ms": 400}),
    ),
)
"""A misread batch is readable a moment later, and the controller's answer about it comes late."""

_OVERTAKEN: Final = Needs(
    topology={"scrub_ms": 400, "segment_bytes": 400},
    kinds=("pause",),
    aimed=(
        Fault(0.6, "misread", {"node": "broker-2", "for_s": 7.0, "rate": 0.1}),
        *(
            Fault(at_s, "partition", {**_LINK, "for_s": 1.8, "hold": True, "one_way": False})
            for at_s in (0.8, 4.0)
        ),
    ),
)
"""Damage comes and goes, while heartbeats are held on streams that their sender gives up."""

_FULL: Final = Needs(
    kinds=("kill",),
    aimed=tuple(
        Fault(at_s, "disk-full", {"node": node, "for_s": 2.5, "room": 0})
        for at_s, node in ((1.0, "leader-0"), (4.0, "broker-2"))
    ),
)

HEALING: Final = (
    Mutant(
        "heals-before-it-is-known",
        "I-15, I-41",
        "a damaged replica truncates its log before its damage without the controller's answer,"
        " though the controller may count it",
        (
            Edit(
                _WATCH,
                "        if self._me in state.elr or any(m.broker_id == self._me for m in"
                " state.isr):\n            return False\n",
                "",
            ),
            Edit(
                _WATCH,
                "        if known_at is None or self._metadata.applied_offset + 1 < known_at:\n"
                "            return False\n",
                "",
            ),
        ),
        _COMES_AND_GOES,
    ),
    Mutant(
        "damage-known-from-an-earlier-answer",
        "I-15, I-41",
        "a damaged replica applies the controller's answer about earlier damage to its present"
        " damage",
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
        "overtaken-heartbeat-decides",
        "I-100",
        "a late heartbeat of an abandoned stream renews no session but its list of damage counts,"
        " and revokes damage that a later heartbeat has reported",
        (
            Edit(
                _CONTROLLER,
                "        if self._is_overtaken(heartbeat):\n            raise InvalidRequest(\n",
                "        if not heartbeat:\n            raise InvalidRequest(\n",
            ),
        ),
        _OVERTAKEN,
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
        "a leader's commits wait for a replica that was in sync until it has lagged for long"
        " enough, although the controller has removed it for its damage",
        (
            Edit(
                _LEADER,
                "        return current and broker_id not in self._offline\n",
                "        return current\n",
            ),
        ),
        Needs(topology={"scrub_ms": 400}, kinds=("bit-flip", "misread")),
    ),
    Mutant(
        "full-disk-is-not-told",
        "I-99",
        "a broker without room refuses writes, and does not report its replicas as unfit",
        (
            Edit(
                _LOG_DIRS,
                "            self.full.on_refused(self.of(log))\n",
                "",
            ),
        ),
        _FULL,
    ),
    Mutant(
        "leads-on-with-a-full-disk",
        "I-99",
        "a replica without room stays in an ISR with sound members, and leads it",
        (
            Edit(
                _OFFLINE,
                "        case ReplicaCondition.DISK_FULL if _any_sound(",
                "        case ReplicaCondition.DISK_FULL if not brokers and _any_sound(",
            ),
        ),
        _FULL,
    ),
    Mutant(
        "full-disk-is-never-looked-at-again",
        "I-88, I-99",
        "a directory that was full once counts as full for ever",
        (
            Edit(
                _FULL_DIRS,
                "        if free >= ROOM_BYTES:\n",
                "        if free < 0:\n",
            ),
        ),
        _FULL,
    ),
)
