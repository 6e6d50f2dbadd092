"""Bugs of eligible leader replicas, and of recovery without any in-sync replica (KIP-966)."""

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
"""The first broker to return, with all its records, is away again when the others are back."""

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
"""The leader that all have waited for loses its tail before another replica has copied it."""

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
"""Two replicas that hold more than the third, one more than the other, return one after
the other.
"""

RECOVERING: Final = (
    Mutant(
        "eligible-though-the-isr-is-whole",
        "I-50",
        "a former member of the ISR stays eligible after the ISR has the minimum again and the"
        " leader commits",
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
        "a partition with an empty ISR stays without a leader, whichever replicas are eligible",
        (Edit(_ELECTION, "    among = isr or elr\n", "    among = isr\n"),),
        Needs(kinds=("isolate", "kill", "stop")),
    ),
    Mutant(
        "forgotten-before-it-is-applied",
        "I-53",
        "the controller forgets a former member of the ISR before the leader has confirmed the"
        " change",
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
        "a balanced recovery forgets the replicas that it has waited for when it elects one of"
        " them",
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
        "the last member of an ISR leaves it and is no longer eligible",
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
        "balanced recovery elects a last member of the ISR whether it lives or not (KAFKA-19522)",
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
        "balanced recovery elects the replica with the shortest log",
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
        "an uncleanly elected leader never reports that it has recovered",
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
        "the controller ignores a leader's report that it has recovered, and lets its ISR grow",
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
        "a replica that gives up records reports only those above its high watermark",
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
        "a loss report begins behind the first record that the leader lacks",
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
        "a replica that gives up records does not report how many of them it knew to be committed",
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
        "the controller keeps the first replica's loss report and drops those of the others",
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
        "a partition that has lost all in-sync replicas never gets a leader again",
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
        "a batch's epoch, which no CRC covers, has a bit flipped upwards while the epoch"
        " checkpoint is lost: all sound batches behind it count as damage, and no leader's epoch"
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
        "a loss of power removes the end of a compacted log's segment but not the next segment:"
        " the missing records count as compacted, and are never copied again",
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
        "a log that loses its end, log start included, restarts there without an epoch, and a log"
        " that ends before it is elected",
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
