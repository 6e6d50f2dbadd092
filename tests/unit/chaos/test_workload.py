"""The workload over clients in memory: it writes down what really happened, whatever goes wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from strandline.errors import BufferFull, OutcomeUnknown, StrandlineError
from strandline_chaos.checkers import check
from strandline_chaos.history import History
from strandline_chaos.payload import decode
from strandline_chaos.workload import FinalReadIncomplete, Plan, Workload

KEYS = 2


@dataclass(frozen=True)
class Placed:
    offset: int


@dataclass
class MemoryLog:
    """A log of each key, and what shall go wrong with a value that is sent."""

    logs: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(KEYS)])
    mischief: Callable[["MemoryLog", int, bytes], StrandlineError | None] = lambda *_: None
    senders: int = 0
    polls_fail: int = 0
    hidden: int = 0
    """How many records at the end of each log are never delivered."""
    wanted: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once `wanted` sends have come."""

    async def send(self, topic: str, value: bytes, *, partition: int) -> asyncio.Future[Placed]:
        self.wanted -= 1
        if self.wanted <= 0:
            self.enough.set()
        future: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        error = self.mischief(self, partition, value)
        if error is None:
            self.logs[partition].append(value)
            future.set_result(Placed(len(self.logs[partition]) - 1))
        else:
            future.set_exception(error)
        return future

    @contextlib.asynccontextmanager
    async def open_sender(self) -> AsyncIterator["MemoryLog"]:
        self.senders += 1
        yield self

    @contextlib.asynccontextmanager
    async def open_reader(self) -> AsyncIterator["MemoryReader"]:
        yield MemoryReader(self)


class MemoryReader:
    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._at = [0] * KEYS

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        await asyncio.sleep(0)
        if self._log.polls_fail > 0:
            self._log.polls_fail -= 1
            raise StrandlineError("the leader has gone")
        found: dict[int, list[tuple[int, bytes | None]]] = {}
        for key, log in enumerate(self._log.logs):
            end = len(log) - self._log.hidden
            if self._at[key] < end:
                found[key] = [(o, log[o]) for o in range(self._at[key], end)]
                self._at[key] = end
        return found

    async def beginning_offsets(self) -> dict[int, int]:
        return dict.fromkeys(range(KEYS), 0)

    async def end_offsets(self) -> dict[int, int]:
        return {key: len(log) for key, log in enumerate(self._log.logs)}


async def run(log: MemoryLog, *, until: int) -> History:
    """A workload over `log` until so many sends have come, and its last reading."""
    history = History(len, lambda: 0)
    plan = Plan("t", KEYS, writers=2, sends_per_s=1e6, in_flight_max=4)
    work = Workload(plan, history, open_sender=log.open_sender, open_reader=log.open_reader)
    log.wanted = until
    await work.run(log.enough.wait())
    await work.read_back(10.0)
    return history


async def test_a_cluster_that_does_all_well_is_found_sound() -> None:
    log = MemoryLog()
    verdict = check((await run(log, until=50)).events)
    assert verdict.sound
    assert verdict.acknowledged == verdict.read == sum(map(len, log.logs))


async def test_no_value_is_sent_twice_and_all_keys_get_some() -> None:
    log = MemoryLog()
    await run(log, until=50)
    sent = [decode(payload) for records in log.logs for payload in records]
    assert len(set(sent)) == len(sent)
    assert {key for key, _ in sent} == set(range(KEYS))


async def test_an_acknowledged_record_that_was_not_kept_is_found_lost() -> None:
    log = MemoryLog()
    history = await run(log, until=50)
    del log.logs[0][3]
    plan = Plan("t", KEYS)
    work = Workload(plan, history, open_sender=log.open_sender, open_reader=log.open_reader)
    await work.read_back(10.0)
    assert check(history.events).anomalies["lost"].count >= 1


async def test_a_client_whose_send_has_an_unknown_outcome_is_thrown_away() -> None:
    def lose_one_answer(log: MemoryLog, key: int, value: bytes) -> StrandlineError | None:
        if log.senders == 2 and len(log.logs[key]) >= 5:
            log.logs[key].append(value)  # it was written, only nobody was told
            return OutcomeUnknown("the answer was lost", may_have_been_written=True)
        return None

    log = MemoryLog(mischief=lose_one_answer)
    verdict = check((await run(log, until=50)).events)
    assert log.senders > 2
    assert verdict.sound
    assert verdict.unknown >= 1


async def test_a_send_that_surely_failed_costs_no_client_and_is_no_anomaly() -> None:
    def refuse_some(log: MemoryLog, key: int, value: bytes) -> StrandlineError | None:
        return BufferFull("no room") if value.split()[1].endswith(b"3") else None

    log = MemoryLog(mischief=refuse_some)
    verdict = check((await run(log, until=50)).events)
    assert log.senders == 2
    assert verdict.sound
    assert verdict.failed >= 1


async def test_a_reader_that_fails_is_replaced_and_starts_from_the_beginning() -> None:
    log = MemoryLog(polls_fail=1)
    history = await run(log, until=2000)
    assert check(history.events).sound
    assert [e.error for e in history.events if e.type == "fail"] == [
        "StrandlineError: the leader has gone"
    ]


async def test_bytes_that_nobody_sent_are_written_down_as_corrupt() -> None:
    log = MemoryLog()
    log.logs[0].append(b"not ours")
    verdict = check((await run(log, until=10)).events)
    assert verdict.anomalies["corrupt"].count >= 1


async def test_a_last_reading_that_does_not_reach_the_end_gives_no_verdict() -> None:
    log = MemoryLog(hidden=1)
    log.logs = [[b"x"], [b"y"]]
    history = History(len, lambda: 0)
    plan = Plan("t", KEYS)
    work = Workload(plan, history, open_sender=log.open_sender, open_reader=log.open_reader)
    with pytest.raises(FinalReadIncomplete):
        await work.read_back(0.01)


@dataclass
class HeldLog(MemoryLog):
    """A log that keeps its acknowledgements back until `release`."""

    held: list[tuple[asyncio.Future[Placed], Placed]] = field(default_factory=list)

    async def send(self, topic: str, value: bytes, *, partition: int) -> asyncio.Future[Placed]:
        done = await super().send(topic, value, partition=partition)
        future: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        self.held.append((future, done.result()))
        return future

    def release(self) -> None:
        for future, placed in self.held:
            future.set_result(placed)


async def test_a_writer_that_waits_for_room_when_the_workload_ends_ends_with_it() -> None:
    log = HeldLog(wanted=4)
    plan = Plan("t", KEYS, writers=1, readers=0, sends_per_s=1e9, in_flight_max=4)
    history = History(len, lambda: 0)
    work = Workload(plan, history, open_sender=log.open_sender, open_reader=log.open_reader)

    async def until_full() -> None:
        await log.enough.wait()
        for _ in range(100):  # let the writer come to where it waits for room
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(log.release)

    async with asyncio.timeout(60):
        await work.run(until_full())
    assert work.acknowledged == 4
