"""Consumer groups of the live workload: members join, consume, commit what they have handled, and
leave, while everything is written down.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from strandline import Consumer, ConsumerRebalanceListener
from strandline.errors import LogTruncated, StrandlineError, describe
from strandline.types import TopicPartition
from strandline_chaos.group_checker import COMMIT, COMMITTED, GROUP_FINAL, GROUP_POLL, MEMBER
from strandline_chaos.payload import CorruptPayload, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline.consumer import ToCommit
    from strandline.types import ConsumerRecord
    from strandline_chaos.history import EventType, History

POLL_MS: Final = 500
REOPEN_S: Final = 0.5
REQUEST_MS: Final = 10_000
ASK_AGAIN_S: Final = 0.5
ASK_AGAIN_MAX: Final = 20
LIFE_S: Final = 20.0
"""The first member's time in the group; each further one stays half as long again."""


class Group:
    """One group with `members` members, each a sequence of consumers."""

    def __init__(
        self, bootstrap: str, topic: str, name: str, members: int, history: History
    ) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._topic = topic
        self._members = members
        self._history = history
        self._done = asyncio.Event()
        self._news = asyncio.Event()
        """Set by every acknowledged commit."""
        self._committed: dict[int, int] = {}
        """The newest acknowledged commit of each key."""

    async def run(self) -> None:
        """Consumes until `finish` has seen the end."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._members):
                name = f"{self.name}, member {number}"
                group.create_task(self._live(LIFE_S * (1 + number / 2)), name=name)

    async def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        """Ends the members once the group's commits have reached `ends`, or at the deadline, and
        asks for the committed offsets.
        """
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline_s):
                    while any(self._committed.get(key, 0) < end for key, end in ends.items()):
                        self._news.clear()
                        await self._news.wait()
        finally:
            self._done.set()
        await self._last_query(sorted(ends), deadline_s)

    async def _last_query(self, keys: list[int], deadline_s: float) -> None:
        process = self._new_process()
        self._history.note(GROUP_FINAL, [process])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while True:
                    try:
                        async with self._consumer() as consumer:
                            await self._query(process, consumer, keys)
                        return
                    except StrandlineError as why:
                        self._history.note("client-failed", describe(why))
                        await asyncio.sleep(REOPEN_S)

    def _new_process(self) -> int:
        process = self._history.new_process()
        self._history.note(MEMBER, [process, self.name])
        return process

    def _consumer(self) -> Consumer:
        return Consumer(
            bootstrap_servers=self._bootstrap,
            group_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_MS,
        )

    async def _live(self, life_s: float) -> None:
        while not self._done.is_set():
            process = self._new_process()
            try:
                async with self._consumer() as consumer:
                    await self._consume(process, consumer, life_s)
            except StrandlineError as why:
                self._history.note("client-failed", describe(why))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REOPEN_S):
                        await self._done.wait()

    async def _consume(self, process: int, consumer: Consumer, life_s: float) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + life_s
        owned = _Owned()
        consumer.subscribe([self._topic], listener=owned)
        while not self._done.is_set() and loop.time() < end_s:
            try:
                found = await consumer.getmany(timeout_ms=POLL_MS)
            except LogTruncated as why:
                consumer.seek(why.partition, why.divergent_offset or 0)
                continue
            if fresh := owned.take_fresh():
                await self._query(process, consumer, fresh)
            if found:
                self._note_poll(process, found)
                ends = {tp.partition: records[-1].offset + 1 for tp, records in found.items()}
                await self._commit(process, consumer, ends)

    def _note_poll(
        self, process: int, found: Mapping[TopicPartition, list[ConsumerRecord]]
    ) -> None:
        runs = []
        for tp, records in sorted(found.items()):
            pairs = []
            for record in records:
                try:
                    pairs.append([record.offset, decode(record.value)[1]])
                except CorruptPayload as why:
                    place = f"key {tp.partition} offset {record.offset}"
                    self._history.note("corrupt", f"{place}: {why}")
            runs.append([tp.partition, pairs])
        op = self._history.invoke(process, GROUP_POLL, [["poll"]])
        self._history.end(process, op, "ok", GROUP_POLL, [["poll", runs]])

    async def _commit(self, process: int, consumer: Consumer, ends: Mapping[int, int]) -> None:
        value = [[key, end] for key, end in sorted(ends.items())]
        op = self._history.invoke(process, COMMIT, value)
        offsets: ToCommit = {TopicPartition(self._topic, key): end for key, end in ends.items()}
        try:
            await consumer.commit(offsets)
        except StrandlineError as why:
            kind: EventType = "info" if why.may_have_been_written else "fail"
            self._history.end(process, op, kind, COMMIT, value, describe(why))
        else:
            self._history.end(process, op, "ok", COMMIT, value)
            for key, end in ends.items():
                self._committed[key] = end
            self._news.set()

    async def _query(self, process: int, consumer: Consumer, keys: list[int]) -> None:
        """Asks for committed offsets. A coordinator that does not know yet that it was deposed
        tells old ones (I-35), so what seems to have gone back is asked for again.
        """
        floors = {key: self._committed.get(key, -1) for key in keys}
        for _ in range(ASK_AGAIN_MAX):
            answer = await self._ask(process, consumer, keys)
            if all(at >= floors[key] for key, at in answer.items()) or self._done.is_set():
                return
            await asyncio.sleep(ASK_AGAIN_S)

    async def _ask(self, process: int, consumer: Consumer, keys: list[int]) -> dict[int, int]:
        op = self._history.invoke(process, COMMITTED, keys)
        answer = {}
        try:
            for key in keys:
                at = await consumer.committed(TopicPartition(self._topic, key))
                answer[key] = -1 if at is None else at
        except StrandlineError as why:
            self._history.end(process, op, "fail", COMMITTED, keys, describe(why))
            raise
        self._history.end(process, op, "ok", COMMITTED, [list(pair) for pair in answer.items()])
        return answer


class _Owned(ConsumerRebalanceListener):
    """The partitions that a member got since it last asked."""

    def __init__(self) -> None:
        self._fresh: set[int] = set()

    def take_fresh(self) -> list[int]:
        fresh, self._fresh = sorted(self._fresh), set()
        return fresh

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        self._fresh |= {tp.partition for tp in assigned}

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        self._fresh -= {tp.partition for tp in revoked}
