"""Bugs of the controller: its elections, its commits, its fencings."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault
from strandline_proof.sim.topology.work import Work

_ALTER: Final = "strandline_broker.core.controller.partitions.alter_partition"
_APPLIED: Final = "strandline_broker.core.controller.brokers.applied_offsets"
_ELECTION: Final = "strandline_broker.core.controller.partitions.election"
_FENCING: Final = "strandline_broker.core.controller.brokers.fencing"
_REGISTRATION: Final = "strandline_broker.core.controller.brokers.registration"
_SHUTDOWN: Final = "strandline_broker.core.controller.brokers.shutdown"
_STARTUP: Final = "strandline_broker.core.controller.log.startup"
_UNFENCING: Final = "strandline_broker.core.controller.brokers.unfencing"
_CONTROLLER: Final = "strandline_broker.hosts.controller.controller"
_LATE_ROLES: Final = "strandline_broker.hosts.replica.late_roles"
_METADATA_LOG: Final = "strandline_broker.storage.controller.metadata_log"

_NET: Final = ("partition", "isolate", "lossy-link", "slow-link", "pause")
_DEATH: Final = ("kill", "power", "pause", "isolate", "slow-link")

_MANY: Final = {
    "brokers": 3,
    "partitions": 300,
    "sends_per_s": 2,
    "segment_bytes": 1 << 20,
    "crowd": 0,
    "groups": (),
    "work": Work(),
}
"""With plain clients, as others cannot go through so many partitions by the end."""
_LEADER_DIES: Final = Fault(3.0, "kill", {"node": "broker-1", "restart_s": 2.5})

_CONTROLLER_TORN: Final = tuple(
    Fault(
        at_s,
        "crash-point",
        {
            "node": "controller",
            "operation": operation,
            "nodes": [],
            "restart_s": 0.3,
            "survival": 0.5,
        },
    )
    for at_s, operation in ((0.3, 7), (1.2, 4), (2.4, 3), (3.6, 5), (4.8, 4), (6.0, 3), (7.2, 5))
)

CONTROLLING: Final = (
    Mutant(
        "only-answers-are-progress",
        "I-94",
        "a broker that applies a large push is fenced after a session, because only its answer"
        " counts as progress",
        (
            Edit(
                _APPLIED,
                "        return elected_ms if progressed_ms is None else"
                " max(elected_ms, progressed_ms)\n",
                "        return elected_ms if progressed_ms is None else elected_ms\n",
            ),
        ),
        Needs(
            topology={**_MANY, "flush_policy": "replicated"},
            aimed=(
                *(
                    Fault(2.5, "slow-disk", {"node": f"broker-{b}", "for_s": 4.0, "factor": 70})
                    for b in (2, 3)
                ),
                _LEADER_DIES,
            ),
            alone=True,
        ),
    ),
    Mutant(
        "one-replica-holds-up-a-push",
        "P-79, I-94",
        "a push is answered only when its last replica has taken its role, however long that takes",
        (
            Edit(
                _LATE_ROLES,
                "        await asyncio.wait([task], timeout=limit_s)\n",
                "        await asyncio.wait([task])\n",
            ),
        ),
        Needs(
            topology={**_MANY, "flush_policy": "replicated"},
            aimed=(
                Fault(2.9, "held-replica", {"node": "broker-2", "partition": 0, "for_s": 3.0}),
                _LEADER_DIES,
            ),
            alone=True,
        ),
    ),
    Mutant(
        "unclean-election",
        "P-27, I-48",
        "any live replica is elected if no member of the ISR can lead",
        (
            Edit(
                _ELECTION,
                "            if broker_id in among and can_lead(partition, broker_id, brokers):\n"
                "                return broker_id\n",
                "            if broker_id in among and can_lead(partition, broker_id, brokers):\n"
                "                return broker_id\n"
                "    for broker_id in partition.replicas:\n"
                "        if electable(partition, broker_id, brokers):\n"
                "            return broker_id\n",
            ),
        ),
        Needs(
            topology={"min_insync_replicas": 1, "partitions": 1, "flush_policy": "always"},
            kinds=("kill", "pause", "isolate"),
        ),
    ),
    Mutant(
        "fenced-broker-elected",
        "P-27, I-23, I-48",
        "an unfencing makes every leaderless partition elect an eligible replica, fenced or not",
        (
            Edit(
                _ELECTION,
                "        if broker_id in (*p.isr, *p.elr)\n",
                "        if p.leader == NO_LEADER\n",
            ),
            Edit(
                _ELECTION,
                "    if broker is None or not broker.eligible:\n        return False\n"
                "    if broker.directory_id",
                "    if broker is None:\n        return False\n    if broker.directory_id",
            ),
        ),
        Needs(
            topology={"min_insync_replicas": 1, "flush_policy": "always"},
            kinds=("kill", "pause", "power"),
        ),
    ),
    Mutant(
        "fenced-broker-stays-in-the-isr",
        "P-28, I-23",
        "fencing a broker moves its leaderships and leaves it in the other ISRs",
        (
            Edit(
                _FENCING,
                "    changes = leave_all(state, broker_id, brokers, lost=False)\n"
                "    mark = BrokerRegistrationChangeRecord(\n"
                "        broker_id=broker_id, broker_epoch=broker_epoch, fenced=True\n",
                "    changes = [\n"
                "        c\n"
                "        for c in leave_all(state, broker_id, brokers, lost=False)\n"
                "        if c.leader is not None\n"
                "    ]\n"
                "    mark = BrokerRegistrationChangeRecord(\n"
                "        broker_id=broker_id, broker_epoch=broker_epoch, fenced=True\n",
            ),
        ),
    ),
    Mutant(
        "fencing-in-two-batches",
        "P-63, P-78, I-82",
        "a broker is fenced first, and leaves its ISRs when it registers again",
        (
            Edit(
                _FENCING,
                "    changes = leave_all(state, broker_id, brokers, lost=False)\n"
                "    mark = BrokerRegistrationChangeRecord(\n"
                "        broker_id=broker_id, broker_epoch=broker_epoch, fenced=True\n",
                "    changes = leave_all(state, broker_id, brokers, lost=False)[:0]\n"
                "    mark = BrokerRegistrationChangeRecord(\n"
                "        broker_id=broker_id, broker_epoch=broker_epoch, fenced=True\n",
            ),
        ),
    ),
    Mutant(
        "reborn-broker-stays-in-the-isr",
        "P-7, I-51",
        "a new incarnation inherits the ISR memberships of the one before",
        (
            Edit(
                _REGISTRATION,
                "        changes = leave_all(state, request.broker_id, others,"
                " lost=is_unclean(old, request))\n",
                "        assert others is not None\n",
            ),
        ),
    ),
    Mutant(
        "unclean-restart-without-a-new-epoch",
        "P-73, I-51",
        "the leader epoch does not rise when a member of the ISR comes back from an unclean end",
        (
            Edit(
                _REGISTRATION,
                "    return new.previous_broker_epoch != old.epoch and not proven\n",
                "    return new.previous_broker_epoch != old.epoch and not proven and False\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, moments=("quick-return",)),
    ),
    Mutant(
        "copied-disk-proves-that-nothing-is-lost",
        "P-71, I-51",
        "a copied directory on another machine counts as the original disk under"
        " flush.policy=always",
        (
            Edit(
                _REGISTRATION,
                "    proven = always and new.listeners == old.listeners\n",
                "    proven = always\n",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("twin", "kill")),
    ),
    Mutant(
        "id-of-a-living-broker-is-given-away",
        "P-71",
        "a process with another directory gets the id of a broker that is alive",
        (
            Edit(
                _REGISTRATION,
                "    if sessions.is_alive(request.broker_id, now_ms):\n",
                "    if sessions.is_alive(request.broker_id, now_ms) and old.pid < 0:\n",
            ),
        ),
        Needs(kinds=("twin",)),
    ),
    Mutant(
        "member-epoch-not-checked",
        "P-7, I-24",
        "an AlterPartition may name any incarnation of a member",
        (
            Edit(
                _ALTER,
                "    if epoch != broker.epoch:\n",
                "    if epoch != broker.epoch and epoch < NO_BROKER_EPOCH:\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, moments=("joiner-is-replaced",)),
    ),
    Mutant(
        "fenced-member-accepted",
        "P-7, P-78, I-23",
        "an AlterPartition may add a broker that is fenced or stopping",
        (
            Edit(
                _ALTER,
                "    if broker is None or not broker.eligible:\n",
                "    if broker is None:\n",
            ),
        ),
        Needs(moments=("joiner-stops",)),
    ),
    Mutant(
        "no-compare-and-set",
        "P-78, I-27",
        "an AlterPartition is committed whatever partition epoch it was made for",
        (
            Edit(
                _ALTER,
                "    if proposal.partition_epoch < partition.partition_epoch:\n",
                "    if proposal.partition_epoch < 0:\n",
            ),
        ),
        Needs(moments=("asked-too-late",)),
    ),
    Mutant(
        "leader-epoch-not-compared",
        "P-6, I-27",
        "an AlterPartition of an earlier leader epoch is accepted",
        (
            Edit(
                _ALTER,
                "    if proposal.leader_epoch < partition.leader_epoch:\n",
                "    if proposal.leader_epoch < 0:\n",
            ),
        ),
        equivalent="whatever raises the leader epoch raises the partition epoch too, and that is"
        " compared; only the error's name differs, and the next push settles it either way",
    ),
    Mutant(
        "unfenced-before-it-has-heard",
        "I-83, I-94",
        "a broker is unfenced before it has applied the record that fenced it",
        (
            Edit(
                _UNFENCING,
                "        and applied >= broker.epoch\n"
                "        and applied >= broker.fencing_offset\n",
                "        and applied >= broker.epoch - broker.epoch\n",
            ),
        ),
    ),
    Mutant(
        "silent-brokers-not-inherited",
        "P-61",
        "a restarted controller watches only the brokers that have sent it a heartbeat",
        (
            Edit(
                _CONTROLLER,
                "            self.sessions.inherit(broker.broker_id, broker.epoch, now_ms)\n",
                "",
            ),
        ),
        Needs(moments=("gone-for-good",)),
    ),
    Mutant(
        "stopping-broker-stays-in-the-isr",
        "P-58, I-84",
        "a controlled shutdown moves no leaderships",
        (
            Edit(
                _SHUTDOWN,
                "    changes = leave_all(state, broker_id, brokers, lost=False)\n",
                "    changes = leave_all(state, broker_id, brokers, lost=False)[:0]\n",
            ),
        ),
        Needs(kinds=("stop", "kill", "pause")),
    ),
    Mutant(
        "controller-epoch-not-raised",
        "P-30, I-31",
        "a restarted controller continues in the epoch of the one before",
        (
            Edit(
                _STARTUP,
                "ControllerEpoch(max(state.controller_epoch, 0) + 1)",
                "ControllerEpoch(max(state.controller_epoch, 1))",
            ),
        ),
        Needs(kinds=("kill", "power", "isolate", "pause")),
    ),
    Mutant(
        "decision-published-before-it-is-durable",
        "P-29, I-30",
        "the controller answers and pushes a decision that is not yet durable",
        (
            Edit(
                _METADATA_LOG,
                "        ticket.run()\n",
                "",
            ),
        ),
        Needs(kinds=("power", "crash-point", "pause", "kill")),
    ),
    Mutant(
        "decision-in-several-batches",
        "P-29, I-7",
        "the records of a decision are written as batches of one record each",
        (
            Edit(
                _METADATA_LOG,
                "        batch = build_batch(((None, value) for value in values),"
                " timestamp_ms=now_ms)\n"
                "        try:\n"
                "            appended = self._log.append_as_leader(\n"
                "                batch, read_header(batch), leader_epoch=controller_epoch\n"
                "            )\n",
                "        base = self._log.log_end_offset\n"
                "        try:\n"
                "            for value in values:\n"
                "                batch = build_batch([(None, value)], timestamp_ms=now_ms)\n"
                "                appended = self._log.append_as_leader(\n"
                "                    batch, read_header(batch), leader_epoch=controller_epoch\n"
                "                )\n",
            ),
            Edit(
                _METADATA_LOG,
                "        return appended.base_offset, appended.next_offset - 1\n",
                "        return base, appended.next_offset - 1\n",
            ),
        ),
        Needs(kinds=("kill", "pause"), aimed=_CONTROLLER_TORN),
    ),
)
