"""Bugs of Kafka's protocol that lose or reorder the records of its clients."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CONNECTION: Final = "strandline_broker.kafka.connection"
_FETCH_ANSWER: Final = "strandline_broker.kafka.records.fetch_answer"
_PRODUCE: Final = "strandline_broker.kafka.records.produce"
_CONNECTION_TESTS: Final = "tests/unit/broker/kafka/test_connection.py"
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
)
