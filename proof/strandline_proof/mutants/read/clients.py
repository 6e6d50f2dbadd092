"""Bugs that a reader of the code chose: producer, consumer, group member, metadata."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_SENDER: Final = "strandline._producer.sender"
_RECONCILING: Final = "strandline._core.reconciling"
_WAS_FULL: Final = "        was_full = self._is_full(key) or self._buffered >= self._buffer_bytes\n"
_TAKEN: Final = (
    "        self._buffered -= len(chunk.data)\n"
    "        self._buffered_of[key] = self._buffered_of.get(key, 0) - len(chunk.data)\n"
)

READ_IN_CLIENTS: Final = (
    Mutant(
        "late-batch-is-surely-not-written",
        "I-21, P-42",
        "a producer reports a batch under way at its delivery deadline as not written, and gives"
        " its sequences to the next",
        (
            Edit(
                "strandline._core.partition_queue",
                "            batch.may_be_written = batch.may_be_written or batch.outstanding\n"
                "            batch.outstanding = False\n"
                "            settled += self._give_up(batch, self._expired(batch))\n",
                "            batch.outstanding = False\n"
                "            settled += self._give_up(batch, self._expired(batch))\n",
            ),
        ),
    ),
    Mutant(
        "flush-forgets-the-open-batch",
        "I-18",
        "flush waits for full batches and those under way only: it returns before the last"
        " records are acknowledged, and a process that then ends has lost them",
        (Edit(_SENDER, "                waiting.append(queue.open)\n", ""),),
    ),
    Mutant(
        "spent-identity-is-given-again",
        "I-59, P-42",
        "a partition that has used up its producer epoch gets the same epoch again: its next"
        " batches restart at sequence 0, and are acknowledged as repetitions without being written",
        (
            Edit(
                "strandline._producer.identities",
                "        if known is not None and known != spent:\n",
                "        if known is not None:\n",
            ),
        ),
    ),
    Mutant(
        "request-is-noted-after-the-write",
        "P-80, I-88",
        "a produce request is noted after its write: a request whose stream breaks in the write"
        " is never retried, and its partition stands still until the delivery deadline",
        (
            Edit(
                "strandline._producer.stream",
                "            self._unanswered[correlation_id] = request\n"
                "            await on_stream(call.write(request.message))\n",
                "            await on_stream(call.write(request.message))\n"
                "            self._unanswered[correlation_id] = request\n",
            ),
        ),
    ),
    Mutant(
        "room-is-looked-for-afterwards",
        "P-66, I-88",
        "a consumer checks for a full buffer after it has taken a part of it: one that has read"
        " ahead to its bound stops fetching",
        (
            Edit(
                "strandline._consumer.fetcher",
                _WAS_FULL + _TAKEN,
                _TAKEN + _WAS_FULL,
            ),
        ),
    ),
    Mutant(
        "lagging-broker-makes-a-topic-go",
        "P-72, P-83",
        "a client takes a topic for deleted if a broker that lags or has just started does not"
        " list it: queued sends fail, and consumers end",
        (
            Edit(
                "strandline._core.cluster_view",
                "        elif metadata_offset > known.metadata_offset:\n"
                "            self._forget(known, changes)\n"
                "            changes.unknown.append(known.name)\n",
                "        else:\n"
                "            self._forget(known, changes)\n"
                "            changes.unknown.append(known.name)\n",
            ),
        ),
    ),
    Mutant(
        "grant-is-taken-for-a-later-one",
        "I-106",
        "a member begins a partition at the offset that it queried under an earlier grant, though"
        " another member has read on in between: records come twice, and the offset goes back",
        (
            Edit(
                _RECONCILING,
                "if self._grants.get(key) == grant\n",
                "if key in self.granted\n",
            ),
        ),
    ),
    Mutant(
        "what-is-being-revoked-is-not-owned",
        "I-134, I-132",
        "a partition counts as revoked from the coordinator's request on, while the application"
        " still works on it: its commits fail, and on a new stream another member gets it at once",
        (
            Edit(
                _RECONCILING,
                "        return self.granted | (self.assigned - self.lost)\n",
                "        return self.granted\n",
            ),
        ),
    ),
    Mutant(
        "not-coordinator-asks-nobody",
        "I-88",
        "a member does not refresh metadata after NOT_COORDINATOR: it returns to the old broker"
        " until its session is over",
        (
            Edit(
                "strandline._net.coordinator",
                "if isinstance(error, BrokerUnreachable | NotCoordinator) or not",
                "if isinstance(error, BrokerUnreachable) or not",
            ),
        ),
    ),
    Mutant(
        "added-partition-is-read-from-its-end",
        "I-18",
        "a consumer of whole topics begins an added partition by the reset policy, not at its"
        " first record: with `latest` it misses the records written before it noticed",
        (
            Edit(
                "strandline._core.whole_topics",
                "                    position.reset(EARLIEST)\n",
                "                    position.reset(EARLIEST if policy is None else policy)\n",
            ),
        ),
    ),
    Mutant(
        "leader-is-found-and-nobody-told",
        "P-66, I-88",
        "batches of a partition whose leader was unknown or has moved are not sent when metadata"
        " names the leader: they wait for a timer or their deadline",
        (
            Edit(
                _SENDER,
                "            if not queue.idle:\n                self.dispatch(queue)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "own-commit-is-overtaken",
        "I-106, P-113",
        "auto-commit commits older positions after the application has committed later ones: the"
        " offset goes back, and records come twice",
        (
            Edit(
                "strandline._core.commit_state",
                "        if not commit.by_itself:\n"
                "            for key in commit.offsets:\n"
                "                self._processed.pop(key, None)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "fenced-epoch-is-final",
        "I-33",
        "a client treats a fenced leader epoch as a permanent error: producers and consumers fail"
        " at an election, where newer metadata would do",
        (
            Edit(
                "strandline_proto.errors",
                "    code = 74\n    retriable = True\n",
                "    code = 74\n    retriable = False\n",
            ),
        ),
    ),
)
