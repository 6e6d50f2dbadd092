"""Bugs of Kafka's protocol that lose or reorder the records of its clients."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_APPENDS: Final = "strandline_broker.hosts.replica.appends"
_CONNECTION: Final = "strandline_broker.kafka.connection"
_CONSUMER_GROUPS: Final = "strandline_broker.kafka.groups.consumer"
_FETCH_ANSWER: Final = "strandline_broker.kafka.records.fetch_answer"
_FIRST_BATCHES: Final = "strandline_broker.core.replication.first_batches"
_OFFSET_FETCH: Final = "strandline_broker.kafka.groups.offset_fetch"
_PRODUCE: Final = "strandline_broker.kafka.records.produce"
_PRODUCERS: Final = "strandline_broker.core.replication.producer_state"
_CONNECTION_TESTS: Final = "tests/unit/broker/kafka/test_connection.py"
_GROUPS_TESTS: Final = "tests/unit/broker/kafka/groups"
_RECORDS_TESTS: Final = "tests/unit/broker/kafka/records"

SPEAKING: Final = (
    Mutant(
        "kafka-produce-overtakes",
        "P-37",
        "a produce request is appended while an earlier one of its connection is still checked, so"
        " the records of a client change their order",
        (
            Edit(
                _CONNECTION,
                "        await calls.append(request, partial(self._done, answer))\n",
                "        appended = calls.append(request, partial(self._done, answer))\n"
                "        self._listener.spawn(appended)\n",
            ),
        ),
        history=f"{_CONNECTION_TESTS}::test_a_produce_request_waits_for_the_appends_before_it",
    ),
    Mutant(
        "kafka-answers-as-they-come",
        "P-80",
        "an answer leaves before the answers of earlier requests, and its client takes it for one"
        " of those",
        (
            Edit(
                _CONNECTION,
                "            first = self._answers.popleft()\n",
                "            self._answers.popleft()\n            first = answer\n",
            ),
        ),
        history=f"{_CONNECTION_TESTS}::test_answers_leave_in_the_order_of_the_requests",
    ),
    Mutant(
        "kafka-refusal-without-acks-goes-on",
        "I-88",
        "a Kafka client with acks=0 writes on to a broker that refuses its records",
        (
            Edit(
                _PRODUCE,
                "            if refusals or not goes_on:\n",
                "            if refusals and not goes_on:\n",
            ),
        ),
        history=f"{_RECORDS_TESTS}/test_produce.py"
        "::test_an_error_without_acks_closes_the_connection",
    ),
    Mutant(
        "kafka-old-consumer-skips-zstd",
        "I-95",
        "a consumer whose version cannot read zstd gets the batches behind one of zstd, and skips"
        " it",
        (
            Edit(
                _FETCH_ANSWER,
                "            return memoryview(records)[:at]\n",
                "            return memoryview(records)[at + header.size :]\n",
            ),
        ),
        history=f"{_RECORDS_TESTS}/test_fetch.py::test_zstd_needs_version_10",
    ),
    Mutant(
        "kafka-truncation-not-reported",
        "I-39, P-82",
        "a consumer over Kafka's protocol reads on at its position in a log whose history differs"
        " from the one it has read",
        (
            Edit(
                _FETCH_ANSWER,
                "    if found.diverging is not None and version >= HISTORIES:\n",
                "    if found.diverging is not None and version > 99:\n",
            ),
        ),
        history=f"{_RECORDS_TESTS}/test_fetch.py::test_a_history_that_differs_is_told_its_end",
    ),
    Mutant(
        "kafka-refused-read-is-no-offset",
        "P-116",
        "a read of offsets that the coordinator refuses looks like a group without offsets, and the"
        " consumer begins where its reset policy says",
        (
            Edit(
                _OFFSET_FETCH,
                "FetchedOffset(None, topic.name, partition, error=error)\n",
                "FetchedOffset(None, topic.name, partition)\n",
            ),
        ),
        history=f"{_GROUPS_TESTS}/test_offset_commits.py"
        "::test_a_version_says_at_which_place_a_group_has_its_error",
    ),
    Mutant(
        "kafka-missing-list-gives-all-up",
        "I-134, P-143",
        "a heartbeat over Kafka's protocol without a list of owned partitions counts as the report"
        " that all are given up, and a partition has two owners",
        (
            Edit(
                _CONSUMER_GROUPS,
                "    if count < 0:\n        return None\n    check_count",
                "    if count < 0:\n        return {}\n    check_count",
            ),
        ),
        history=f"{_GROUPS_TESTS}/test_consumer.py"
        "::test_an_empty_list_of_owned_partitions_is_not_a_missing_one",
    ),
    Mutant(
        "kafka-any-batch-is-the-first",
        "I-56, I-59",
        "a producer without state begins at any sequence at once, so a new producer's second batch"
        " is appended before its first one, which was refused",
        (
            Edit(
                _APPENDS,
                "        if header.base_sequence == producers.first_sequence or is_repeated:\n"
                "            return is_repeated\n",
                "        if producers is not None:\n            return True\n",
            ),
        ),
        history=f"{_RECORDS_TESTS}/test_produce.py"
        "::test_a_new_producers_batches_wait_for_the_first",
    ),
    Mutant(
        "kafka-repeats-of-any-connection",
        "I-56, I-59",
        "batches of two connections count as one batch and its repetition, though an earlier batch"
        " of the second connection was refused before this leadership",
        (
            Edit(
                _FIRST_BATCHES,
                "            or found.connection is not connection\n",
                "",
            ),
        ),
        history="tests/unit/broker/core/replication/test_first_batches.py"
        "::test_arrivals_of_another_connection_or_epoch_do_not_count",
    ),
    Mutant(
        "kafka-refusals-do-not-count-as-arrivals",
        "I-56, I-59",
        "the first batch of a new producer is refused for another reason twice, and the second"
        " batch behind it counts as repeated",
        (
            Edit(
                _APPENDS,
                "        was_forgotten = is_idempotent and self._was_forgotten(header, connection)",
                "        was_forgotten = False",
            ),
            Edit(
                _APPENDS,
                "            leader.check_can_append_all()\n",
                "            leader.check_can_append_all()\n"
                "        if is_idempotent:\n"
                "            was_forgotten = self._was_forgotten(header, connection)\n",
            ),
        ),
        history=f"{_RECORDS_TESTS}/test_produce.py"
        "::test_a_new_producers_batches_wait_for_the_first",
    ),
    Mutant(
        "before-the-first-taken-for-written",
        "I-18, P-80",
        "a batch before the first one of a forgotten producer is acknowledged, and is in no log",
        (
            Edit(
                _PRODUCERS,
                "            return Duplicate(-1, -1, -1, Offset(last.last_offset + 1))\n"
                '        expected += f"; its batches here begin with {begins_at}"\n',
                "            pass\n"
                "        return Duplicate(-1, -1, -1, Offset(last.last_offset + 1))\n",
            ),
        ),
        history="tests/unit/broker/core/replication/test_producer_state.py"
        "::test_what_comes_before_the_first_batch_is_no_duplicate",
    ),
)
