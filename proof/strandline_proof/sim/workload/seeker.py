"""A reader that goes where it likes: into the middle of batches, back to where it was, to either
end and beyond.

It also pauses, saves its position for another consumer, and looks up offsets. Its requests alone
decide what it must receive: after a seek the record at that offset, after a pause the next one, and
so on, except records that were deleted (I-75). Partitions in which records may be missing are read
without being judged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline import Consumer
from strandline.errors import LogTruncated, OffsetOutOfRange, StrandlineError
from strandline.types import TopicPartition
from strandline_chaos.payload import CorruptPayload, decode
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import TOPIC

if TYPE_CHECKING:
    from collections import Counter

    from strandline.types import ConsumerRecord
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
POLL_MS: Final = 100
RETRY_S: Final = 0.2
REST_S: Final = (0.0, 0.02, 0.15)
AT_ONCE: Final = (None, 1, 2, 3, 7)
"""Most records of a poll; small numbers end it in the middle of a batch."""
ACTIONS: Final = (6, 20)
"""Actions of one consumer, least and most, before another continues from its position."""
BEYOND: Final = 100_000
"""An offset beyond all records of any run."""
TRIES: Final = 5
"""Polls within which a partition's state must be reported."""


@dataclass(slots=True)
class Place:
    """The reader's position in one partition."""

    next: int | None = None
    """The offset that must come next; None if the library decides."""
    epoch: int = -1
    """The leader epoch of the record before that, if it was read."""
    end: int = 0
    """The end of the records that the present consumer has read or was told of."""
    paused: bool = False
    beyond: bool = False
    """True if it was sent behind the end on purpose."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A lookup by time, and its answer."""

    partition: int
    time_ms: int
    end: int
    """The end of the records that the asking client knew of."""
    removed: int
    """The end of the records that may have been deleted when the answer came."""
    offset: int | None
    said_ms: int


class Seeker:
    def __init__(self, world: World, sometimes: Counter[str]) -> None:
        self.read: dict[tuple[int, int], int] = {}
        """The value at each (partition, offset) that it received."""
        self.lookups: list[Lookup] = []
        self._world = world
        self._some = sometimes
        self._places: dict[int, Place] = {}
        self._epochs: dict[tuple[int, int], int] = {}
        """Leader epochs of the records that it received."""
        self._rng: Any = None
        self._actions: Any = {
            "read": self._poll,
            "seek": self._seek,
            "pause": self._pause,
            "ends": self._ends,
            "edge": self._edge,
            "time": self._time,
            "beyond": self._beyond,
        }

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        self._rng = runtime.rng
        while not stop.is_set():
            try:
                async with Consumer(
                    bootstrap_servers=self._world.topology.bootstrap,
                    auto_offset_reset="error",
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    metadata_max_age_ms=self._world.metadata_max_age_ms,
                    max_partition_fetch_bytes=self._world.topology.fetch_bytes,
                    runtime=runtime,
                ) as consumer:
                    await self._live(consumer, stop)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    async def _live(self, consumer: Consumer, stop: asyncio.Event) -> None:
        partitions = range(self._world.topology.partitions)
        await consumer.assign([TopicPartition(TOPIC, p) for p in partitions])
        for number in partitions:
            self._go_on(consumer, number)
        for _ in range(self._rng.randint(*ACTIONS)):
            if stop.is_set():
                return
            if self._rng.random() < 0.5:
                await self._poll(consumer)
            else:
                await self._actions[self._rng.choice(list(self._actions))](consumer)
            await asyncio.sleep(self._rng.choice(REST_S))

    def _go_on(self, consumer: Consumer, number: int) -> None:
        """Another consumer begins at the position of the last one (KIP-320)."""
        place = self._places.get(number)
        if place is None or place.next is None or place.beyond:
            self._places[number] = place = Place(next=0)
        elif place.epoch >= 0:
            self._some["seeker went on from a saved place"] += 1
        place.end, place.paused, place.beyond = 0, False, False
        consumer.seek(TopicPartition(TOPIC, number), self._at(place), place.epoch)

    def _at(self, place: Place) -> int:
        return 0 if place.next is None else place.next

    def _any(self) -> tuple[TopicPartition, Place]:
        number = self._rng.choice(sorted(self._places))
        return TopicPartition(TOPIC, number), self._places[number]

    # Actions.

    async def _poll(self, consumer: Consumer) -> None:
        try:
            found = await consumer.getmany(
                timeout_ms=POLL_MS, max_records=self._rng.choice(AT_ONCE)
            )
        except LogTruncated as error:
            self._on_truncated(consumer, error)
            return
        except StrandlineError as error:
            self._on_trouble(consumer, error)
            return
        for tp, records in found.items():
            self._on_given(tp, records)
        for tp in found:
            place = self._places[tp.partition]
            try:
                position = await consumer.position(tp)
            except StrandlineError:
                continue  # the partition has an error, which the next poll raises
            self._compare(tp, "position", position, place.next)
            self._compare(tp, "position_epoch", consumer.position_epoch(tp), place.epoch)

    async def _seek(self, consumer: Consumer) -> None:
        """Seeks among the records known to be there; with the epoch, if it is known, or without."""
        tp, place = self._any()
        begin = self._removed(tp.partition)
        if place.end <= begin:
            return
        place.next = self._rng.randint(begin, place.end)
        epoch = self._epochs.get((tp.partition, place.next - 1), -1)
        place.epoch = epoch if self._rng.random() < 0.5 else -1
        place.beyond = False
        consumer.seek(tp, place.next, place.epoch)
        self._some["seeker sought"] += 1

    async def _pause(self, consumer: Consumer) -> None:
        tp, place = self._any()
        place.paused = not place.paused
        if place.paused:
            consumer.pause(tp)
        else:
            consumer.resume(tp)
            self._some["seeker resumed a partition"] += 1

    async def _edge(self, consumer: Consumer) -> None:
        """Seeks to the first record that is there, or behind the last."""
        tp, place = self._any()
        to_end = self._rng.random() < 0.5
        place.next, place.epoch, place.beyond = None, -1, False
        try:
            await (consumer.seek_to_end(tp) if to_end else consumer.seek_to_beginning(tp))
            place.next = await consumer.position(tp)
        except StrandlineError:
            place.next = 0
            consumer.seek(tp, 0)
            return
        self._check_edge(tp, "end" if to_end else "beginning", place.next)
        self._some[f"seeker went to the {'end' if to_end else 'beginning'}"] += 1

    async def _ends(self, consumer: Consumer) -> None:
        tps = sorted(consumer.assignment())
        try:
            begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        except StrandlineError:
            return
        for tp in tps:
            self._check_edge(tp, "beginning", begins[tp])
            self._check_edge(tp, "end", ends[tp])

    async def _time(self, consumer: Consumer) -> None:
        tp, place = self._any()
        times = self._world.stamps.times_of(tp.partition)
        if not times:
            return
        time_ms = self._rng.choice(times) + self._rng.choice((-1, 0, 0, 1))
        end = place.end
        try:
            at = (await consumer.offsets_for_times({tp: time_ms}))[tp]
        except StrandlineError:
            return
        found, said_ms = (None, -1) if at is None else (at.offset, at.timestamp)
        removed = self._removed(tp.partition)
        self.lookups.append(Lookup(tp.partition, time_ms, end, removed, found, said_ms))
        self._some["seeker looked up a time"] += 1

    async def _beyond(self, consumer: Consumer) -> None:
        """Seeks behind the end, with an existing epoch: the log has no such record (P-82)."""
        tp, place = self._any()
        if place.epoch < 0 or place.paused:
            return
        place.next, place.beyond = self._at(place) + BEYOND, True
        consumer.seek(tp, place.next, place.epoch)
        for _ in range(TRIES):
            if not place.beyond:
                return
            await self._poll(consumer)
        place.next, place.epoch, place.beyond = 0, -1, False
        consumer.seek(tp, 0)

    # Answers.

    def _on_given(self, tp: TopicPartition, records: list[ConsumerRecord]) -> None:
        place, number = self._places[tp.partition], tp.partition
        if place.paused:
            self._fail(f"{tp} is paused, and offset {records[0].offset} of it is delivered")
        for record in records:
            wanted, removed = place.next, self._removed(number)
            if (
                wanted is not None
                and record.offset != wanted
                and not (wanted < record.offset <= removed)
            ):
                self._judge(number, f"offset {record.offset} is delivered, {wanted} must follow")
            place.next, place.epoch = record.offset + 1, record.leader_epoch
            place.beyond = False
            place.end = max(place.end, record.offset + 1)
            self._epochs[number, record.offset] = record.leader_epoch
            self._world.stamps.check(record)
            self._note(number, record)
        self._some["seeker read"] += len(records)

    def _note(self, number: int, record: ConsumerRecord) -> None:
        try:
            key, value = decode(record.value)
        except CorruptPayload as why:
            self._judge(number, f"offset {record.offset}: {why}")
            return
        known = self.read.setdefault((number, record.offset), value)
        if key != number or known != value:
            self._judge(
                number, f"offset {record.offset} holds {value} of partition {key}, {known} before"
            )

    def _on_truncated(self, consumer: Consumer, error: LogTruncated) -> None:
        """Checks a report of truncation: committed records are never truncated, only a position
        beyond them.
        """
        tp, divergent = error.partition, error.divergent_offset
        place = self._places[tp.partition]
        if not place.beyond:
            self._judge(tp.partition, f"offset {place.next}, which was read up to: {error}")
        elif divergent is None or divergent < self._at(place) - BEYOND:
            self._judge(tp.partition, f"all before {self._at(place) - BEYOND} is there: {error}")
        else:
            self._some["seeker was told of a truncation"] += 1
        place.next = 0 if divergent is None else divergent
        place.epoch, place.beyond = -1, False
        consumer.seek(tp, place.next)

    def _on_trouble(self, consumer: Consumer, error: StrandlineError) -> None:
        """Continues from the position, or from the beginning if that was deleted."""
        self._some[f"seeker met {type(error).__name__}"] += 1
        for number, place in self._places.items():
            removed = self._removed(number)
            if isinstance(error, OffsetOutOfRange) and f" of {TOPIC}/{number} " in str(error):
                if place.epoch >= 0 and place.next is not None and place.next >= removed:
                    self._judge(number, f"it goes on in an epoch that was read: {error}")
                place.next = removed  # a deposed leader, which no request named, may have less
            if place.next is None or place.next <= removed:
                place.next, place.epoch, place.beyond = removed, -1, False
            consumer.seek(TopicPartition(TOPIC, number), place.next, place.epoch)

    # Checks.

    def _removed(self, number: int) -> int:
        return self._world.clients.removed.get(number, 0)

    def _check_edge(self, tp: TopicPartition, edge: str, offset: int) -> None:
        place, removed = self._places[tp.partition], self._removed(tp.partition)
        if edge == "beginning" and offset > removed:
            self._judge(
                tp.partition, f"it is said to begin at {offset}, and nothing from {removed} is gone"
            )
        if edge == "end" and offset < place.end:
            self._judge(tp.partition, f"it is said to end at {offset}, it went to {place.end}")
        if edge == "end":
            place.end = offset

    def _compare(self, tp: TopicPartition, what: str, said: int, must_be: int | None) -> None:
        if said != must_be and must_be is not None:
            self._judge(tp.partition, f"its {what} is {must_be}, and said to be {said}")

    def _judge(self, number: int, what: str) -> None:
        if self._world.clients.is_judged(number):
            self._fail(f"partition {number}: {what}")

    def _fail(self, what: str) -> None:
        self._world.loop.fail(Violation("seeker", what))


async def run_seeker(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    node.process = world.clients.seeker
    await world.clients.seeker.run(runtime, stop)
