"""Bugs of the consumer: where it reads on, what it says of offsets, what it commits by itself."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CALLS: Final = "strandline.consumer"
_DELIVERY: Final = "strandline._consumer.delivery"
_FETCHER: Final = "strandline._consumer.fetcher"
_GROUP: Final = "strandline._groups.group"
_POSITION: Final = "strandline._core.position"
_QUERIES: Final = "strandline.consumer"
_RECORDS: Final = "strandline._consumer.records"
_STREAM: Final = "strandline._consumer.stream"

CONSUMING: Final = (
    Mutant(
        "seek-delivers-what-was-opened",
        "I-42",
        "after a seek the rest of the batch that was being delivered comes first",
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
        "after a seek what was read ahead of the old position is delivered",
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
        "records of a batch before the one that was sought are delivered too",
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
        "of a batch that was delivered in part, the position is said to be behind all of it",
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
        "a consumer that is sent to an offset with its epoch reads there without asking",
        (
            Edit(
                _POSITION,
                "        self.phase = Phase.VALIDATING if epoch >= 0 else Phase.FETCHING\n",
                "        self.phase = Phase.FETCHING\n        self.fetch_epoch = -1\n",
            ),
        ),
    ),
    Mutant(
        "epoch-of-the-batch-behind",
        "P-82",
        "a position is said to have the epoch of an older record than the one before it",
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
        "a record at the very time that was asked for is passed over",
        (
            Edit(
                _QUERIES,
                "        found = await self._list(dict(timestamps))\n",
                "        found = await self._list({tp: t + 1 for tp, t in timestamps.items()})\n",
            ),
        ),
    ),
    Mutant(
        "offset-zero-is-none",
        "I-11",
        "a time whose record is the first of the log is said to have none",
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
        "what was read ahead of a paused partition is thrown away, and not read again",
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
        "a partition is resumed, and nobody asks its leader for more",
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
        "what was read ahead of a partition is delivered though it is paused",
        (
            Edit(
                "strandline.consumer",
                "if not (p.paused or p.withheld)]\n            found = collect",
                "if not p.withheld]\n            found = collect",
            ),
        ),
    ),
    Mutant(
        "commits-what-is-being-handed-over",
        "P-113",
        "auto-commit takes what the last poll has returned for processed",
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
        "a consumer that hears of a new leader goes on waiting for the old one",
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
        "a partition that a leader has refused once is asked for only when something else happens",
        (
            Edit(
                _FETCHER,
                "        position.retry_at_ms = self._now_ms() + wait_ms\n",
                "        position.retry_at_ms = self._now_ms() + wait_ms * 10_000\n",
            ),
        ),
    ),
    Mutant(
        "unreachable-leader-is-given-up",
        "I-88",
        "a consumer whose connection to a leader breaks does not open another",
        (
            Edit(
                _STREAM,
                "                await asyncio.sleep(self._backoff.next_ms("
                "self._fetcher.chance()) / 1000)\n",
                "                self._wake.clear()\n                await self._wake.wait()\n",
            ),
        ),
        equivalent="in the step before it waits it asks for metadata, until an answer comes, and"
        " every answer wakes the stream of each leader that is read from, changed or not",
    ),
)
