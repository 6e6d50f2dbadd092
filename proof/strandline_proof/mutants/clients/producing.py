"""Bugs of the producer: its batches, their sequences, its retries."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.topology.work import Work
from strandline_proto.batch import SEQUENCE_MAX

_BATCH: Final = "strandline._core.producer_batch"
_HAND_OVER: Final = "strandline._producer.accumulator"
_QUEUE: Final = "strandline._core.partition_queue"
_SPLITTING: Final = "strandline._core.splitting"
_SENDER: Final = "strandline._producer.sender"
_STREAM: Final = "strandline._producer.stream"

PRODUCING: Final = (
    Mutant(
        "sequence-wraps-to-one",
        "I-56, I-59",
        "after sequence 2^31 - 1 a producer goes on with 1",
        (
            Edit(
                _QUEUE,
                "            self._next_sequence ="
                " add_sequence(self._next_sequence, batch.count)\n",
                "            following = self._next_sequence + batch.count\n"
                "            self._next_sequence = following % (2**31 - 1)\n",
            ),
        ),
    ),
    Mutant(
        "order-of-numbers-without-the-wrap",
        "P-42, I-59",
        "a batch before the wrap of sequences is ordered behind a batch after it",
        (
            Edit(
                _BATCH,
                "    return 0 < (b - a) & 0x7FFFFFFF < 0x40000000\n",
                "    return a < b\n",
            ),
        ),
        Needs(
            topology={
                "partitions": 1,
                "min_insync_replicas": 3,
                "sends_per_s": 12,
                "work": Work(delivery_ms=1000, first_sequence=SEQUENCE_MAX, lasting=True),
            },
            kinds=("kill",),
        ),
        history="tests/unit/client/_core/test_partition_queue.py"
        "::test_the_hole_of_two_batches_begins_at_the_first_across_the_wrap_of_sequences",
    ),
    Mutant(
        "open-batch-lost-on-a-retry",
        "I-18",
        "a producer drops the open batch while it retries another one",
        (
            Edit(
                _QUEUE,
                "        if not self._recovering:\n            self.retry_at_ms",
                "        if self.open is not None and self.options.linger_ms > 0:\n"
                "            self.open = None\n"
                "        if not self._recovering:\n            self.retry_at_ms",
            ),
        ),
    ),
    Mutant(
        "lingering-batch-wakes-nobody",
        "I-88",
        "a lingering batch is sent only when another record opens a batch",
        (
            Edit(
                _QUEUE,
                "            if due > now_ms and"
                " len(self.in_flight) < self.options.max_in_flight:\n"
                "                return due\n",
                "            if due > now_ms and len(self.in_flight) < 0:\n"
                "                return due\n",
            ),
            Edit(
                _SENDER,
                "        if queue.in_flight or queue.has_more:\n            self.dispatch(queue)\n",
                "        if queue.in_flight or queue.ready:\n            self.dispatch(queue)\n",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue.py"
        "::test_an_open_batch_lingers_while_another_is_in_flight",
    ),
    Mutant(
        "full-batch-wakes-nobody",
        "I-88",
        "batches that wait for their turn go on waiting after an acknowledgement",
        (
            Edit(
                _SENDER,
                "        if queue.in_flight or queue.has_more:\n            self.dispatch(queue)\n",
                "        pass\n",
            ),
        ),
        Needs(
            topology={
                "partitions": 1,
                "work": Work(burst=60, batch_bytes=100, delivery_ms=100_000, lasting=True),
            },
            kinds=("kill",),
        ),
    ),
    Mutant(
        "retry-in-the-order-of-failures",
        "P-80, I-59",
        "a failed batch is retried at once, whatever batches of its partition are under way",
        (
            Edit(
                _QUEUE,
                "            if any(b.outstanding for b in self.in_flight):\n"
                "                return None\n            self._recovering = False\n",
                "            self._recovering = False\n",
            ),
            Edit(
                _QUEUE,
                "            self._resend = deque(self.in_flight)\n",
                "            waits = [b for b in self.in_flight if not b.outstanding]\n"
                "            self._resend = deque(waits)\n",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue.py"
        "::test_retries_wait_for_what_is_under_way_and_keep_the_order",
    ),
    Mutant(
        "sent-twice-without-numbers",
        "I-55",
        "a producer that is not idempotent retries a batch that may have been written",
        (
            Edit(
                _QUEUE,
                "        if batch.may_be_written and not self.options.idempotent:\n"
                "            settled = self._give_up",
                "        if batch.may_be_written and batch.attempt > 3:\n"
                "            settled = self._give_up",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue_verdicts.py"
        "::test_without_idempotence_what_may_be_written_is_not_sent_again",
    ),
    Mutant(
        "parts-under-one-number",
        "I-55, I-59",
        "all parts of a split batch carry the first sequence of the whole",
        (
            Edit(
                _SPLITTING,
                "            sequence = add_sequence(sequence, part.count)\n",
                "            sequence = add_sequence(sequence, 0)\n",
            ),
        ),
        history="tests/unit/client/_core/test_splitting.py"
        "::test_the_parts_share_out_the_sequence_over_its_end",
    ),
    Mutant(
        "parts-are-surely-not-written",
        "I-21, P-42",
        "the parts of a split batch count as certainly not written though the batch may be",
        (
            Edit(
                _SPLITTING,
                "    part.may_be_written = batch.may_be_written\n",
                "    part.may_be_written = False\n",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue_splits.py"
        "::test_what_may_be_written_keeps_its_numbers_in_parts",
    ),
    Mutant(
        "new-topic-gets-what-the-old-one-may-have",
        "I-21",
        "a producer sends batches to a re-created topic though the deleted one may have them in"
        " its log",
        (
            Edit(
                _QUEUE,
                "        if self._recreated is None or not batch.may_be_written:\n"
                "            return []\n",
                "        if self._recreated is None or batch.may_be_written:\n"
                "            batch.may_be_written = False\n"
                "            return []\n",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue_recreated.py"
        "::test_what_may_be_in_the_old_log_is_unknown",
    ),
    Mutant(
        "forgotten-producer-gives-up",
        "I-60, I-88",
        "a producer that its leader has forgotten requests no new identity",
        (
            Edit(
                _QUEUE,
                "        if self._gap_at == NO_SEQUENCE:\n            self._renew = True\n"
                "        return []",
                "        return []",
            ),
        ),
    ),
    Mutant(
        "known-producer-is-not-written",
        "I-21",
        "a producer that is out of sequence reports a batch as certainly not written though it"
        " may be",
        (
            Edit(
                _QUEUE,
                "        if batch.may_be_written:\n"
                "            return self._give_up(batch, failure(batch, str(self), error))\n"
                "        if self._gap_at",
                "        if batch.may_be_written:\n"
                "            return self._give_up(batch, error)\n"
                "        if self._gap_at",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue.py"
        "::test_what_may_be_written_is_resolved_under_its_own_number_before_the_epoch_is_raised",
    ),
    Mutant(
        "key-goes-where-leaders-are",
        "I-98",
        "a key's partition is chosen among those that have a leader at the moment",
        (
            Edit(
                _HAND_OVER,
                "        chosen = self._partitioner(key, len(view.partitions))\n",
                "        led = sum(p.leader >= 0 for p in view.partitions.values())\n"
                "        chosen = self._partitioner(key, led or len(view.partitions))\n",
            ),
        ),
    ),
    Mutant(
        "offset-of-the-batch",
        "I-19",
        "every record of a batch is acknowledged with the offset of the first",
        (
            Edit(
                _SENDER,
                "            offset = base + index if base >= 0 else -1\n",
                "            offset = base if base >= 0 else -1\n",
            ),
        ),
    ),
    Mutant(
        "moved-batch-with-its-old-checksum",
        "I-88, P-42",
        "a batch that moves up in the sequence keeps the checksum of its old sequence",
        (
            Edit(
                _BATCH,
                "        _CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "broken-stream-loses-its-queues",
        "I-88",
        "batches queued for an unreachable broker are not queued again",
        (
            Edit(
                _SENDER,
                "        await asyncio.sleep(pause_s)\n        for queue in queues:\n"
                "            self.dispatch(queue)\n",
                "        await asyncio.sleep(pause_s)\n",
            ),
        ),
        history="tests/unit/client/_producer/test_stream.py"
        "::test_what_was_offered_to_a_broker_out_of_reach_is_offered_again",
    ),
    Mutant(
        "new-leader-gets-only-what-is-new",
        "I-88",
        "batches under way to a deposed leader wait for its answer, or until its silence is"
        " noticed",
        (
            Edit(
                _QUEUE,
                "                batch.outstanding = False\n"
                "                batch.may_be_written = True\n"
                "                self._recovering = True\n",
                "                batch.may_be_written = True\n",
            ),
        ),
        history="tests/unit/client/_core/test_partition_queue.py"
        "::test_a_newer_leader_is_used_at_once_without_the_old_ones_answer",
    ),
    Mutant(
        "refusal-that-nobody-hears",
        "I-88",
        "a batch with acks=0 is refused without an error, and its client writes to a former"
        " leader for minutes",
        (
            Edit(
                "strandline_broker.hosts.serving.produce_requests",
                "        return self._acks != 0 or all(result.appended for result in"
                " self._response.partitions)\n",
                "        return True\n",
            ),
        ),
        history="tests/unit/broker/rpc/records/test_produce_answers.py"
        "::test_who_wants_no_answer_is_told_of_a_refusal_by_the_end_of_the_stream",
    ),
)
