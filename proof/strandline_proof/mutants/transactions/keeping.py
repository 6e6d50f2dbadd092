"""Bugs of partitions with transactions, of their aborted index, and of readers."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant
from strandline_proof.mutants.transactions.deciding import TRANSACTIONS

_ADMISSION: Final = "strandline_broker.core.groups.offsets"
_APPENDS: Final = "strandline_broker.hosts.replica.appends"
_FILTER: Final = "strandline._core.aborted_filter"
_MARKERS: Final = "strandline_broker.hosts.serving.producers.markers"
_OPEN: Final = "strandline_broker.core.replication.open_transactions"
_PRODUCERS: Final = "strandline_broker.core.replication.producer_state"
_READER: Final = "strandline_broker.storage.log.reader"
_SEGMENT: Final = "strandline_broker.storage.segment.segment"
_STATE: Final = "strandline._core.transaction_state"
_VERIFICATION: Final = "strandline_broker.core.replication.verification"
_TEST_GUARDS: Final = "tests/unit/broker/core/replication/test_verification.py"

KEEPING: Final = (
    Mutant(
        "guard-outlives-its-marker",
        "P-106, I-158",
        "the end of a transaction leaves the guards of its first batches valid",
        (
            Edit(
                _VERIFICATION,
                "        return self._remove(marker.producer_id, lambda each:"
                " _is_ended_by(each, marker))\n",
                "        return []\n",
            ),
        ),
        history=f"{_TEST_GUARDS}::test_a_batch_needs_its_own_guard_in_every_order_of_events",
    ),
    Mutant(
        "equal-guards-are-one",
        "P-106, I-158",
        "a guard that was made later counts as the one of the batch",
        (
            Edit(
                _VERIFICATION,
                "        return any(each is guard for each in"
                " self._of.get(guard.producer_id, ()))\n",
                "        return guard.producer_id in self._of\n",
            ),
        ),
        history=f"{_TEST_GUARDS}::test_a_later_guard_is_no_substitute_for_a_voided_one",
    ),
    Mutant(
        "known-producers-are-not-verified",
        "P-106, I-157",
        "the first batch of a transaction is appended unverified if its producer is known",
        (
            Edit(
                _APPENDS,
                "        if partition.producers.open_epoch(header.producer_id) =="
                " header.producer_epoch:\n            assert",
                "        if partition.producers.knows(header.producer_id):\n            assert",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "stable-before-the-marker-is-committed",
        "P-115, I-152",
        "the last stable offset passes a transaction when its marker is appended",
        (
            Edit(
                _OPEN,
                "        else:\n            self._add_ended(first, marker_offset)\n",
                "        else:\n            self.on_committed(self._committed)\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "aborted-entry-counts-itself",
        "I-153",
        "the last stable offset of an entry of the aborted index counts the ended transaction",
        (
            Edit(
                _PRODUCERS,
                "                first = open_ids.pop(producer_id, None)\n",
                "                first = open_ids.get(producer_id)\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "aborted-ones-of-one-segment",
        "P-109, I-154",
        "a read looks for aborted transactions in the segment of its first offset only",
        (
            Edit(
                _READER,
                "        for segment in segments[first:]:\n            if segment.has_aborted",
                "        for segment in segments[first : first + 1]:\n"
                "            if segment.has_aborted",
            ),
        ),
        history="tests/unit/broker/storage/log/test_aborted.py"
        "::test_a_read_looks_into_later_segments",
    ),
    Mutant(
        "aborted-index-keeps-what-is-truncated",
        "I-153",
        "a truncation leaves the aborted index as it is",
        (
            Edit(
                _SEGMENT,
                "            kept.set_aborted(self.aborted().cut(end_offset))\n",
                "            kept.set_aborted(self.aborted())\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_aborted.py::test_a_truncation_cuts_the_index",
    ),
    Mutant(
        "reader-hides-what-follows-an-abort",
        "I-154",
        "a reader of committed records hides a producer's transactions after an aborted one",
        (
            Edit(
                _FILTER,
                "                self._open.discard(header.producer_id)\n",
                "                pass\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "reader-hides-from-the-start",
        "P-122, I-154",
        "a reader of committed records hides a producer's batches before its aborted transaction",
        (
            Edit(
                _FILTER,
                "        while self._ahead and self._ahead[-1][0] <= header.last_offset:\n",
                "        while self._ahead:\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "offsets-taken-for-duplicates",
        "P-129",
        "the second offsets of a transaction are taken for the first, sent again",
        (
            Edit(
                _APPENDS,
                "        is_idempotent = origin.is_looked_into and header.producer_id >= 0\n",
                "        is_idempotent = header.producer_id >= 0\n",
            ),
        ),
        history="tests/golden/test_group_histories_of_transactions.py::test_24_marker_then_read",
    ),
    Mutant(
        "marker-past-the-shard",
        "P-104, I-164",
        "the marker of a partition of offsets is appended without its group's shard",
        (
            Edit(
                _MARKERS,
                "            if partition.log.topic == CONSUMER_OFFSETS:\n",
                "            if partition.log.topic == CONSUMER_OFFSETS and key[1] < 0:\n",
            ),
        ),
        TRANSACTIONS,
    ),
    Mutant(
        "expired-id-begins-again",
        "P-114, I-173",
        "a producer whose transactional id has expired goes on",
        (Edit(_STATE, "        wire.InvalidProducerIdMapping.code,\n", ""),),
        history="tests/integration/test_client_transactions.py::test_an_expired_id_is_fatal",
    ),
    Mutant(
        "pending-offset-granted-as-stable",
        "P-151, I-147",
        "an offset that a transaction may yet change goes out with a grant",
        (
            Edit(
                _ADMISSION,
                "    if table.pending.is_pending(group_id, topic.name, partition):\n"
                "        return _unstable(group_id, found)\n    if value",
                "    if value",
            ),
        ),
        history="tests/golden/test_group_histories_of_offsets.py::test_23_stable_fetch",
    ),
)
