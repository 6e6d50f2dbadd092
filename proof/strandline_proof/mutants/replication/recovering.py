"""Bugs of eligible leader replicas and of the recovery where nobody in sync is left (KIP-966)."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_ALTER: Final = "strandline_broker.core.controller.partitions.alter_partition"
_APPLIED: Final = "strandline_broker.core.controller.brokers.applied_offsets"
_ELECTION: Final = "strandline_broker.core.controller.partitions.election"
_ISR: Final = "strandline_broker.core.controller.partitions.isr"
_LEADER: Final = "strandline_broker.core.replication.leader"
_LOSSES: Final = "strandline_broker.hosts.replica.losses"
_REPORTS: Final = "strandline_broker.core.controller.partitions.losses"
_RECOVERY: Final = "strandline_broker.core.controller.partitions.recovery"
_REGISTRATION: Final = "strandline_broker.core.controller.brokers.registration"

_ALL_DIE: Final = Needs(
    topology={"min_insync_replicas": 2, "flush_policy": "replicated"},
    kinds=("kill", "power", "kill", "crash-point"),
)

_ALL_LOSE_POWER: Final = Needs(
    topology={"min_insync_replicas": 2, "brokers": 3, "flush_policy": "replicated"},
    kinds=("slow-link",),
    aimed=(
        Fault(
            3.0,
            "power",
            {
                "nodes": ["broker-1", "broker-2", "broker-3"],
                "restart_s": 0.5,
                "survival": 0.0,
            },
        ),
    ),
)

_UNCLEAN: Final = Needs(
    topology={"min_insync_replicas": 2, "partitions": 1},
    moments=("unclean-election",),
)

_FIRST_IS_GONE_AGAIN: Final = Needs(
    topology={
        "min_insync_replicas": 2,
        "partitions": 1,
        "brokers": 3,
        "flush_policy": "replicated",
    },
    kinds=("slow-link",),
    aimed=(
        Fault(2.0, "kill", {"node": "broker-1", "restart_s": 0.2}),
        Fault(2.0, "power", {"nodes": ["broker-2", "broker-3"], "restart_s": 1.5, "survival": 0.0}),
        Fault(2.9, "kill", {"node": "broker-1", "restart_s": 3.0}),
    ),
)
"""Who is back first, with all that it held, is away again when the others are back."""

_APART: Final = {"for_s": 4.0, "hold": False, "one_way": False}
_THE_NEXT_FAILS_TOO: Final = Needs(
    topology=_FIRST_IS_GONE_AGAIN.topology,
    kinds=("slow-link",),
    aimed=(
        Fault(1.9, "partition", {"a": "broker-1", "b": "broker-2", **_APART}),
        Fault(1.9, "partition", {"a": "broker-1", "b": "broker-3", **_APART}),
        Fault(1.9, "partition", {"a": "broker-2", "b": "broker-3", **_APART}),
        Fault(2.0, "kill", {"node": "broker-1", "restart_s": 0.2}),
        Fault(2.0, "kill", {"node": "broker-2", "restart_s": 0.2}),
        Fault(2.0, "kill", {"node": "broker-3", "restart_s": 0.2}),
        Fault(4.0, "kill", {"node": "other-0", "restart_s": 3.0}),
        Fault(4.0, "kill", {"node": "heir-0", "restart_s": 3.0}),
        Fault(4.0, "power", {"nodes": ["leader-0"], "restart_s": 0.5, "survival": 0.0}),
    ),
)
"""The leader that all had waited for loses its tail before anybody could copy it."""

_CUT: Final = {"a": "leader-0", "hold": False, "one_way": False}
_TWO_LOGS_ARE_LOST: Final = Needs(
    topology={"min_insync_replicas": 1, "partitions": 1, "brokers": 3},
    kinds=("slow-link",),
    aimed=(
        Fault(0.5, "unclean", {"for_s": 9.0}),
        Fault(1.0, "partition", {**_CUT, "b": "other-0", "for_s": 5.0}),
        Fault(1.8, "partition", {**_CUT, "b": "heir-0", "for_s": 4.0}),
        Fault(4.4, "kill", {"node": "heir-0", "restart_s": 1.6}),
        Fault(4.4, "isolate", {"node": "leader-0", "for_s": 3.0, "hold": False}),
    ),
)
"""Two that hold more than the third, one more than the other, come back one after the other."""

RECOVERING: Final = (
    Mutant(
        "eligible-though-the-isr-is-whole",
        "I-50",
        "who left the ISR stays eligible when it has the minimum again, and the leader commits",
        (
            Edit(
                _ISR,
                "    if len(isr) < min_isr:\n",
                "    if len(isr) < len(partition.replicas):\n",
            ),
        ),
    ),
    Mutant(
        "unclean-restart-stays-eligible",
        "P-9, I-51",
        "a broker that comes back without a proof of a clean stop stays eligible",
        (
            Edit(
                _REGISTRATION,
                " lost=is_unclean(old, request))\n",
                " lost=is_unclean(old, request) and False)\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, kinds=("power", "kill", "power", "isolate")),
    ),
    Mutant(
        "eligible-replicas-not-elected",
        "I-48, I-88",
        "a partition whose ISR is empty waits, whoever is eligible",
        (Edit(_ELECTION, "    among = isr or elr\n", "    among = isr\n"),),
        Needs(kinds=("isolate", "kill", "stop")),
    ),
    Mutant(
        "forgotten-before-it-is-applied",
        "I-53",
        "who has left an ISR is forgotten though its leader has not answered for that",
        (
            Edit(
                _APPLIED,
                "        return self._answered.get(leader, -1) >= partition.changed_at\n",
                "        return True\n",
            ),
        ),
        _FIRST_IS_GONE_AGAIN,
    ),
    Mutant(
        "who-was-waited-for-is-forgotten",
        "I-53, I-54",
        "a balanced recovery forgets whom it has waited for when it has elected one of them",
        (
            Edit(
                _RECOVERY,
                "        last_known_elr=tuple(b for b in known if b != leader),\n",
                "        last_known_elr=(),\n",
            ),
        ),
        _THE_NEXT_FAILS_TOO,
    ),
    Mutant(
        "last-member-not-eligible",
        "I-50",
        "the last member of an ISR leaves it and is eligible no more",
        (
            Edit(
                _ISR,
                "        complete = {*partition.isr, *partition.elr} - {*isr} - {*lost}\n",
                "        complete = {*partition.elr} - {*isr} - {*lost}\n",
            ),
        ),
    ),
    Mutant(
        "recovery-of-a-fenced-replica",
        "P-27, I-48",
        "balanced recovery elects who was in sync last, alive or not (KAFKA-19522)",
        (
            Edit(
                _RECOVERY,
                "        if not electable(partition, b, brokers) or"
                " ends.of(partition, brokers[b]) is None\n",
                "        if b not in brokers\n",
            ),
            Edit(
                _RECOVERY,
                "    present = [b for b in partition.replicas"
                " if electable(partition, b, brokers)]\n",
                "    present = list(partition.last_known_elr)\n",
            ),
            Edit(
                _RECOVERY,
                "        return electable(partition, b, brokers), end or UNKNOWN_END, is_sound\n",
                "        return True, end or UNKNOWN_END, is_sound\n",
            ),
        ),
        _ALL_DIE,
    ),
    Mutant(
        "recovery-by-the-shorter-log",
        "P-75, I-53",
        "balanced recovery elects the replica with the least log",
        (
            Edit(
                _RECOVERY, "    return max(among, key=rank)\n", "    return min(among, key=rank)\n"
            ),
        ),
        _ALL_DIE,
    ),
    Mutant(
        "recovery-never-ends",
        "I-49, I-88",
        "a leader that was elected uncleanly never says that it has recovered",
        (
            Edit(
                _LEADER,
                "        if kept != self.isr or self._state.recovering:\n",
                "        if kept != self.isr:\n",
            ),
        ),
        _ALL_DIE,
    ),
    Mutant(
        "isr-grows-in-recovery",
        "I-49",
        "the controller does not take over that a leader has recovered, and lets its ISR grow",
        (
            Edit(
                _ALTER,
                "            else proposal.leader_recovery_state\n",
                "            else None\n",
            ),
            Edit(_LEADER, "        if self._state.recovering:\n", "        if False:\n"),
        ),
        _ALL_DIE,
    ),
    Mutant(
        "loss-report-of-a-wrong-range",
        "I-53",
        "a replica that gives up records tells only of those above its high watermark",
        (
            Edit(
                _LOSSES,
                "                start=offset,\n",
                "                start=max(offset, partition.high_watermark),\n",
            ),
        ),
        _UNCLEAN,
    ),
    Mutant(
        "loss-report-begins-too-late",
        "I-53",
        "a report of what may be lost begins behind the first record that the leader lacks",
        (
            Edit(
                _RECOVERY,
                "    below = end.shared_below(newest_led(partition))\n",
                "    below = end.offset + 1\n",
            ),
        ),
        _ALL_LOSE_POWER,
    ),
    Mutant(
        "loss-report-without-a-count",
        "I-53",
        "a replica that gives up records does not tell how many it knew to be committed",
        (
            Edit(
                _LOSSES,
                "                committed=partition.high_watermark,\n",
                "                committed=offset,\n",
            ),
        ),
        _UNCLEAN,
    ),
    Mutant(
        "loss-report-keeps-the-first-range",
        "I-53",
        "of what several replicas have given up the controller keeps what the first has said",
        (
            Edit(
                _REPORTS,
                "        start, end = min(report.start, loss.start), max(report.end, loss.end)\n",
                "        start, end = report.start, report.end\n",
            ),
        ),
        _TWO_LOGS_ARE_LOST,
    ),
    Mutant(
        "no-recovery",
        "P-75, I-53",
        "a partition that has lost all who were in sync never gets a leader again",
        (
            Edit(
                _RECOVERY,
                "    if awaited or not partition.last_known_elr:\n",
                "    if awaited or partition.last_known_elr:\n",
            ),
        ),
        _ALL_DIE,
    ),
    Mutant(
        "highest-epoch-of-a-batch-is-believed",
        "I-5, P-34",
        "the epoch checkpoint is lost, and a bit of a batch's epoch, which no CRC covers, has"
        " flipped upwards: all sound batches behind it are taken for damage, and no leader's epoch"
        " begins any more",
        (
            Edit(
                "strandline_broker.storage.log.epochs_read",
                " and rises[behind].batches <= count:\n",
                " and rises[behind].batches < 0:\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_recovery.py"
        "::test_lost_epochs_are_read_from_the_most_batches_that_rise_together",
    ),
    Mutant(
        "lost-end-of-a-segment-taken-for-a-gap",
        "I-1, I-7",
        "a loss of power takes the end of a segment of a compacted log and leaves the next one:"
        " what is missing between them counts as compacted, and is never copied again",
        (
            Edit(
                "strandline_broker.storage.log.recovery_scan",
                "        return base_offset <= min(self.gaps_below, below)\n",
                "        return base_offset <= self.gaps_below\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_gaps.py"
        "::test_recovery_cuts_where_the_end_of_a_segment_is_missing",
    ),
    Mutant(
        "deletion-forgotten-with-the-lost-end",
        "I-5, I-53",
        "the end of a log is lost, and with it all from the log start on: the log begins anew there"
        " without an epoch, and one that ends before it is elected",
        (
            Edit(
                "strandline_broker.storage.log.log",
                "        if is_deletion:\n",
                "        if is_deletion and offset < 0:\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_recovery.py"
        "::test_a_log_whose_end_was_lost_below_its_start_stands_as_the_deletion_left_it",
    ),
)
