"""Bugs of coordinators of transactions: their decisions, and the markers that follow."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault
from strandline_proof.sim.topology.transactions import Transacting
from strandline_proof.sim.topology.work import Work

_COMPLETING: Final = "strandline_broker.core.transactions.completing"
_END: Final = "strandline_broker.core.transactions.end"
_PRODUCERS: Final = "strandline_broker.core.replication.producer_state"
_RECORDS: Final = "strandline_broker.core.transactions.records"
_SENDER: Final = "strandline_broker.hosts.transactions.marker_sender"
_SHARD: Final = "strandline_broker.hosts.transactions.transaction_shard"
_TIMEOUTS: Final = "strandline_broker.core.transactions.timeouts"

CLUSTER: Final = {
    "transactions": Transacting(),
    "offsets_partitions": 1,
    "groups": (),
    "crowd": 0,
    "flush_policy": "always",
    "work": Work(),
}
TRANSACTIONS: Final = Needs(topology=CLUSTER, kinds=("decider-move", "teller-crash"))
_DIES: Final = {"node": "decider-0", "restart_s": 1.0}
_DECIDERS_DIE: Final = Needs(
    topology=CLUSTER,
    aimed=tuple(
        Fault(1.0 + n, "kill", {**_DIES, "node": f"decider-{n % 2}"}, "decision", 0.001 * n)
        for n in range(6)
    ),
    alone=True,
)
_TEST_END: Final = "tests/unit/broker/core/transactions/test_end.py"
_TEST_MARKERS: Final = "tests/unit/broker/hosts/replica/test_end_markers.py"

DECIDING: Final = (
    Mutant(
        "end-without-bump",
        "P-55, P-105, I-166",
        "the end of a transaction does not raise the epoch",
        (
            Edit(
                _END,
                "    if command.version >= WITH_BUMP:\n        after = prepared_with_bump(",
                "    if command.version > WITH_BUMP:\n        after = prepared_with_bump(",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "repeated-end-is-unknown",
        "I-167",
        "the end of a transaction is not recognized when it is repeated",
        (
            Edit(
                _END,
                "    if found.last_producer_epoch != command.producer_epoch:\n",
                "    if found.last_producer_epoch != command.producer_epoch + 1:\n",
            ),
        ),
        history=f"{_TEST_END}::test_with_bumps_the_epoch_tells_a_retry_from_the_next_end",
    ),
    Mutant(
        "repeated-end-gets-the-old-epoch",
        "I-167",
        "the answer to a repeated end names the epoch of the ended transaction",
        (
            Edit(
                _END,
                "    if command.is_commit == (found.state in COMMITTED):\n"
                "        return Producer(found.producer_id, found.producer_epoch)\n",
                "    if command.is_commit == (found.state in COMMITTED):\n"
                "        return Producer(found.producer_id, command.producer_epoch)\n",
            ),
        ),
        history=f"{_TEST_END}::test_with_bumps_the_epoch_tells_a_retry_from_the_next_end",
    ),
    Mutant(
        "markers-before-the-decision-is-committed",
        "I-164",
        "the markers of a decision leave when it is appended",
        (
            Edit(
                _SHARD,
                "        if self.machine.park(prepared, transactional_id):\n"
                "            prepared.committed()\n",
                "        prepared.committed()\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "complete-after-the-first-marker",
        "I-164",
        "a transaction is complete when one of its markers is committed",
        (
            Edit(
                _COMPLETING, "    if outstanding.partitions:\n", "    if not command.partitions:\n"
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "markers-are-not-sent-after-a-load",
        "P-131, I-174",
        "a coordinator that has loaded decisions does not send their markers",
        (
            Edit(
                _SHARD,
                "        for effect in self.transactions.unfinished():\n",
                "        for effect in ():\n",
            ),
        ),
        _DECIDERS_DIE,
    ),
    Mutant(
        "leaderless-is-deleted",
        "P-126, I-164",
        "the marker of a partition without a leader counts as written",
        (
            Edit(
                _SENDER,
                "        if leader is None:\n            self._again(item)\n",
                "        if leader is None:\n            self._complete(item)\n",
            ),
        ),
        history="tests/unit/broker/hosts/transactions/test_marker_sender.py"
        "::test_a_partition_without_a_leader_is_not_a_deleted_one",
    ),
    Mutant(
        "old-coordinators-marker",
        "I-155",
        "a marker of an older coordinator is written",
        (
            Edit(
                _PRODUCERS,
                "        if marker.coordinator_epoch < producer.coordinator_epoch:\n",
                "        if marker.coordinator_epoch < -1:\n",
            ),
        ),
        history=f"{_TEST_MARKERS}::test_a_marker_of_an_older_coordinator_is_refused",
    ),
    Mutant(
        "repeated-marker-is-refused",
        "P-120, I-156",
        "a marker that is written already is refused as one of an old epoch",
        (
            Edit(
                _PRODUCERS,
                "        if is_equal and producer.txn_first_offset == NO_OFFSET:\n",
                "        if is_equal and marker.producer_id < 0:\n",
            ),
        ),
        _DECIDERS_DIE,
    ),
    Mutant(
        "two-bumps-at-a-timeout",
        "P-118, I-171",
        "a transaction past its timeout is aborted as if its producer had an older epoch",
        (
            Edit(
                _TIMEOUTS,
                "        last_producer_epoch=transaction.producer_epoch,\n",
                "        last_producer_epoch=type(transaction.producer_epoch)(\n"
                "            transaction.producer_epoch - 1\n"
                "        ),\n",
            ),
        ),
        history=f"{_TEST_END}::test_timeout_vs_commit",
    ),
    Mutant(
        "timeout-aborts-what-is-decided",
        "I-165, I-171",
        "a transaction past its timeout is aborted although its end is decided",
        (
            Edit(
                _TIMEOUTS,
                "    return transaction.state is ONGOING and age_ms > transaction.timeout_ms\n",
                "    return age_ms > transaction.timeout_ms\n",
            ),
        ),
        history=f"{_TEST_END}::test_a_timeout_does_not_abort_a_decided_transaction",
    ),
    Mutant(
        "no-new-id-at-an-abort",
        "P-119, I-169",
        "an abort at the last epoch gives the producer no other id",
        (
            Edit(
                _END,
                "        last_producer_epoch=last_producer_epoch,\n"
                "        next_producer_id=context.id_after_bump(transaction),\n",
                "        last_producer_epoch=last_producer_epoch,\n"
                "        next_producer_id=transaction.next_producer_id,\n",
            ),
        ),
        history=f"{_TEST_END}::test_a_timeout_at_the_last_epoch_gives_another_id_too",
    ),
    Mutant(
        "previous-producer-is-not-written",
        "P-119, I-169",
        "the record of a new producer id does not have the one before",
        (
            Edit(
                _RECORDS,
                "    if value.previous_producer_id != NO_PRODUCER_ID:\n",
                "    if value.previous_producer_id < NO_PRODUCER_ID:\n",
            ),
        ),
        history="tests/unit/broker/core/transactions/test_records.py"
        "::test_values_are_kafkas_bytes_both_ways",
    ),
)
