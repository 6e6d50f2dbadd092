"""The one pipeline of decisions (I-82, P-78).

One task takes one decision at a time: decide on the committed state, make the records durable,
replay them, publish them to the push streams, answer. Nothing else changes the state. So a decision
depends only on committed state, and only durable decisions are published (P-29).

- A write that fails ends the process: its outcome is unknown, and only a replay of the log can tell
  (P-24).
- A decision for which the disk has no room was not made: its caller gets the refusal, and the
  process continues.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from strandline_broker.core.config_values import shown
from strandline_broker.core.controller import push
from strandline_broker.core.controller.log import snapshot
from strandline_broker.core.controller.log.record_limits import BrokenRule
from strandline_broker.core.controller.log.records import ControllerEpochRecord, decode, encode
from strandline_broker.storage.controller.metadata_log import NoRoom
from strandline_proto.errors import ThrottlingQuotaExceeded, WireError
from strandline_proto.ids import MetadataOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from strandline_broker.core.controller.log.decision import Decision
    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.hosts.controller.metadata_store import MetadataStore
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime

Answer = TypeVar("Answer")
Made = TypeVar("Made")

QUEUE_MAX: Final = 1024
NOT_NOW: Final = (ThrottlingQuotaExceeded, NoRoom)
"""Errors that refuse any decision for a while: too many are queued, or the disk is full."""


COMPLAINT_S: Final = 5.0
"""Time between two log lines about that."""


class OnCommit(Protocol):
    def __call__(self, records: Sequence[AnyRecord], envelope: push.MetadataDelta) -> None:
        """A batch is durable and replayed. Must not wait or fail."""
        ...


@dataclass(frozen=True, slots=True)
class _Job:
    decide: Callable[[], Decision[Any]]
    answer: asyncio.Future[Any]


def replay_log(state: ControllerState, log: MetadataStore) -> None:
    """Restore an empty `state` from the log's snapshot, if there is one, and the decisions after
    it. Raises LaterRecord if a later build wrote them, ValueError if they do not fit each other.
    """
    if log.snapshot is not None:
        _follow(
            state, log.snapshot.end_offset, partial(snapshot.restore, state, log.snapshot.values)
        )
    for base, last, values in log.batches():
        if state.next_offset != base or last - base + 1 != len(values):
            raise ValueError(
                f"a decision of {len(values)} records has the offsets {base} to {last}, where "
                f"{state.next_offset} must follow"
            )
        for index, value in enumerate(values):
            at = MetadataOffset(base + index)
            try:
                record = decode(value)
            except ValueError as error:
                raise type(error)(f"the record at offset {at}: {error}") from None
            _follow(state, at + 1, partial(state.replay, record, at))
    if log.end_offset != state.next_offset:
        raise ValueError(f"it ends at {log.end_offset}, its last decision at {state.next_offset}")


def _follow(state: ControllerState, to: int, replay: Callable[[], None]) -> None:
    """`replay` what a disk holds, which brings the state to offset `to`."""
    before = state.next_offset
    try:
        replay()
    except (BrokenRule, LookupError) as error:
        raise ValueError(
            f"what it holds from offset {before} does not follow from what came before "
            f"({type(error).__name__}: {shown(str(error))})"
        ) from error
    if state.next_offset != to:
        raise ValueError(
            f"what it holds from offset {before} ends at {state.next_offset}, not {to}"
        )


async def _in_turns(slices: Generator[None, None, Made]) -> Made:
    while True:
        await asyncio.sleep(0)
        try:
            next(slices)
        except StopIteration as end:
            made: Made = end.value
            return made


class Pipeline:
    def __init__(
        self, runtime: Runtime, state: ControllerState, log: MetadataStore, on_commit: OnCommit
    ) -> None:
        self._runtime = runtime
        self._state = state
        self._log = log
        self._on_commit = on_commit
        self._queue: asyncio.Queue[_Job] = asyncio.Queue(QUEUE_MAX)
        self.executor = runtime.serial_executor("metadata-log")
        """The thread for every change of the log."""
        self.pending: Sequence[AnyRecord] = ()
        """The records that are decided and not yet committed; one batch at most."""
        self._settled = asyncio.Event()
        """Set when that batch is settled."""
        self._quiet_until_s = 0.0

    async def submit(self, decide: Callable[[], Decision[Answer]]) -> Answer:
        """Call `decide` on the committed state in its turn; returns its answer once its records are
        durable.

        Raises what `decide` raises: a WireError that refuses, or an unexpected failure, which has
        changed nothing either. If the caller is cancelled before its turn, the decision is skipped;
        later cancellation changes nothing.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Job(decide, answer))
        except asyncio.QueueFull:
            raise ThrottlingQuotaExceeded(
                f"{QUEUE_MAX} decisions wait for the controller's disk; try again later"
            ) from None
        return await answer

    async def until_settled(self, broker_id: BrokerId) -> None:
        """Return once all decisions about a broker are applied. Until then the state may be out of
        date, for example about whether the broker is alive or its replica is damaged (I-82).
        """
        while any(getattr(record, "broker_id", None) == broker_id for record in self.pending):
            await self._settled.wait()

    async def run(self) -> None:
        """Take decisions until cancelled."""
        while True:
            job = await self._queue.get()
            if not job.answer.done():
                await self._take(job)

    async def _take(self, job: _Job) -> None:
        try:
            decision = job.decide()
        except Exception as refused:  # noqa: BLE001 - nothing is decided; it is the asker's to judge
            job.answer.set_exception(refused)
            return
        if decision.records:
            try:
                await self.commit(decision.records)
            except NoRoom as full:
                self._complain(full)
                if not job.answer.done():
                    job.answer.set_exception(full)
                return
        if not job.answer.done():
            job.answer.set_result(decision.answer)

    async def commit(self, records: Sequence[AnyRecord]) -> None:
        """Make one atomic batch durable, then replay it, then publish it, in this order. NoRoom:
        none of these happened.
        """
        state, self.pending = self._state, records
        first = records[0]
        epoch = first.epoch if isinstance(first, ControllerEpochRecord) else state.controller_epoch
        now_ms = int(self._runtime.clock.time() * 1000)

        def append() -> tuple[int, int]:
            values = [encode(record) for record in records]
            return self._log.append(values, controller_epoch=epoch, now_ms=now_ms)

        try:
            base, last = await asyncio.get_running_loop().run_in_executor(self.executor, append)
        except NoRoom:
            self._settle()
            raise
        except (OSError, WireError) as error:
            self._runtime.exit(f"the controller's log could not be written: {error}")
        assert base == state.next_offset, (base, state.next_offset)
        assert last == base + len(records) - 1, (base, last, len(records))
        await self._replay(records, base)
        self._settle()

    def _settle(self) -> None:
        self.pending = ()
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    def _complain(self, full: NoRoom) -> None:
        now_s = self._runtime.clock.monotonic()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + COMPLAINT_S
            self._runtime.log.error("decisions are refused", why=str(full))

    async def _replay(self, records: Sequence[AnyRecord], base: int) -> None:
        """Change the state and publish the batch in one step. The expensive preparation of a large
        batch runs before, in slices.
        """
        state = self._state
        changes = push.begin(state, records)
        if push.partitions_concerned(state, changes) < push.SLICE:
            for index, record in enumerate(records):
                state.replay(record, MetadataOffset(base + index))
            self._on_commit(records, push.delta(state, changes))
            return
        staged = state.staged(records)
        for index, record in enumerate(records):
            if index % push.SLICE == 0:
                await asyncio.sleep(0)
            staged.replay(record, MetadataOffset(base + index))
        envelope = await _in_turns(push.delta_in_slices(staged, changes))
        state.become(staged)
        self._on_commit(records, envelope)

    def close(self) -> None:
        """Wait for the write under way, if any; the log may be closed after it."""
        self.executor.shutdown(wait=True)
