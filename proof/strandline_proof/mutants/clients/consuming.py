"""Bugs of the consumer: its positions, its lookups by time, its commits."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CALLS: Final = "strandline._reading.positions"
_DELIVERY: Final = "strandline._consumer.delivery"
_FETCHER: Final = "strandline._consumer.fetcher"
_GROUP: Final = "strandline._groups.group"
_POSITION: Final = "strandline._core.position"
_QUERIES: Final = "strandline._reading.log_offsets"
_RECORDS: Final = "strandline._consumer.records"
_STREAM: Final = "strandline._consumer.stream"

CONSUMING: Final = (
    Mutant(
        "seek-delivers-what-was-opened",
        "I-42",
        "a consumer delivers the rest of the open batch after a seek",
        (
            Edit(
                _CALLS,
                "        self._delivery.forget(position.key)\n        self._started()",
                "        self._started()",
            ),
        ),
    ),
    Mutant(
        "seek-keeps-what-was-read-ahead",
        "I-42",
        "a consumer delivers records after a seek that it had read ahead from the old position",
        (
            Edit(
                _CALLS,
                "        self._started().moved(position)\n        if self._group",
                "        self._started().plan()\n        if self._group",
            ),
        ),
    ),
    Mutant(
        "seek-into-a-batch-begins-at-the-batch",
        "I-42",
        "a consumer that seeks into a batch also delivers the batch's earlier records",
        (
            Edit(
                _RECORDS,
                "            records = [r for r in records if r.offset >= from_offset]\n",
                "            records = list(records)\n",
            ),
        ),
    ),
    Mutant(
        "position-behind-the-whole-batch",
        "P-82, P-113",
        "a consumer reports its position behind a whole batch though it has delivered a part of it",
        (
            Edit(
                _DELIVERY,
                "                position.on_delivered(opened.records[end].offset, opened.epoch)\n",
                "                position.on_delivered(opened.next_offset, opened.epoch)\n",
            ),
        ),
    ),
    Mutant(
        "saved-place-is-not-validated",
        "P-82",
        "a consumer that seeks to an offset with its epoch reads there without validating them",
        (
            Edit(
                _POSITION,
                "        self.phase = Phase.VALIDATING if epoch >= 0 else Phase.FETCHING\n",
                "        self.phase = Phase.FETCHING\n        self.fetch_epoch = -1\n",
            ),
        ),
        history="tests/unit/client/_core/test_position.py"
        "::test_a_position_with_an_epoch_is_validated_first",
    ),
    Mutant(
        "epoch-of-the-batch-behind",
        "P-82",
        "a position carries the leader epoch of a record older than the one before it",
        (
            Edit(
                _POSITION,
                "            self._read.leave(self.offset, self.epoch)\n"
                "        self.offset = next_offset\n        self.epoch = epoch\n",
                "            self._read.leave(self.offset, self.epoch)\n"
                "        if self.epoch < 0 or epoch == self.epoch:\n"
                "            self.epoch = epoch\n        self.offset = next_offset\n",
            ),
        ),
    ),
    Mutant(
        "time-after-instead-of-at",
        "I-11",
        "a lookup by time passes over a record at that very time",
        (
            Edit(
                _QUERIES,
                "        found = await self._list(dict(timestamps), self._within(timeout_ms))\n",
                "        later = {tp: t + 1 for tp, t in timestamps.items()}\n"
                "        found = await self._list(later, self._within(timeout_ms))\n",
            ),
        ),
    ),
    Mutant(
        "offset-zero-is-none",
        "I-11",
        "a lookup by time reports no record if the first record of the log is the answer",
        (
            Edit(
                _QUERIES,
                "        return {tp: None if at.offset < 0 else at for tp, at in found.items()}\n",
                "        return {tp: at if at.offset > 0 else None for tp, at in found.items()}\n",
            ),
        ),
    ),
    Mutant(
        "resumed-behind-what-was-read-ahead",
        "I-42",
        "a consumer drops the records read ahead of a paused partition, and does not fetch them"
        " again",
        (
            Edit(
                _CALLS,
                "            position.paused = False\n        fetcher.arrived",
                "            position.paused = False\n"
                "            if fetcher.buffers.get(position.key):\n"
                "                fetcher.drop(position.key)\n"
                "                fetcher.buffers[position.key] = asyncio.Queue()._queue\n"
                "        fetcher.arrived",
            ),
        ),
    ),
    Mutant(
        "resume-wakes-nobody",
        "I-88",
        "a resumed partition is not fetched from its leader",
        (
            Edit(
                _CALLS,
                "            position.paused = False\n        fetcher.arrived.set()\n"
                "        fetcher.plan()\n",
                "            position.paused = False\n        fetcher.arrived.set()\n",
            ),
        ),
        history="tests/integration/test_client_consumer.py"
        "::test_a_paused_partition_delivers_nothing_until_it_is_resumed",
    ),
    Mutant(
        "paused-is-delivered",
        "I-42",
        "a consumer delivers records that it read ahead of a partition though the partition is"
        " paused",
        (
            Edit(
                "strandline.consumer",
                "if not (p.paused or p.withheld)]\n\n    async def _lend",
                "if not p.withheld]\n\n    async def _lend",
            ),
        ),
    ),
    Mutant(
        "commits-what-is-being-handed-over",
        "P-113",
        "auto-commit counts the records of the last poll as processed",
        (
            Edit(
                _GROUP,
                "        self._handed.update(dict.fromkeys(positions))\n",
                "        moved = list(positions)\n"
                "        self._handed.update(dict.fromkeys(moved))\n"
                "        self.commits.state.on_poll({p.key: at_of(p) for p in moved})\n",
            ),
        ),
        history="tests/integration/test_client_group.py"
        "::test_auto_commit_takes_what_was_handed_over_before_the_last_poll_never_more",
    ),
    Mutant(
        "new-leader-wakes-no-reader",
        "I-88",
        "a consumer that learns of a new leader goes on waiting for the old one",
        (
            Edit(
                _FETCHER,
                "                    position.fail(why_gone(self.cluster,"
                " position.partition.topic))\n        self.plan()\n",
                "                    position.fail(why_gone(self.cluster,"
                " position.partition.topic))\n",
            ),
        ),
    ),
    Mutant(
        "failed-fetch-is-not-tried-again",
        "I-88",
        "a partition that a leader has refused once is fetched again only when something else"
        " happens",
        (
            Edit(
                _FETCHER,
                "loop.call_later(wait_ms / 1000, self._try_again, position)\n",
                "loop.call_later(wait_ms * 10, self._try_again, position)\n",
            ),
        ),
        history="tests/unit/client/_consumer/test_fetcher.py"
        "::test_what_failed_is_asked_for_again_though_its_timer_is_early",
    ),
    Mutant(
        "unreachable-leader-is-given-up",
        "I-88",
        "a consumer whose connection to a leader breaks does not open another",
        (
            Edit(
                _STREAM,
                "                await asyncio.sleep(pause_s)\n",
                "                self._wake.clear()\n                await self._wake.wait()\n",
            ),
        ),
        equivalent="in the step before it waits it asks for metadata, until an answer comes, and"
        " every answer wakes the stream of each leader that is read from, changed or not",
    ),
)
