"""The pipeline: one decision at a time, durable before true, true before known."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from strandline_broker.core.controller import push
from strandline_broker.core.controller.brokers.fencing import decide_fence
from strandline_broker.core.controller.brokers.registration import decide_registration
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.brokers.unfencing import decide_unfence
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    ConfigRecord,
    ControllerEpochRecord,
    encode,
)
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.producer_ids import decide_producer_ids
from strandline_broker.core.controller.topics.topics import (
    NewTopic,
    TopicDefaults,
    decide_create_topic,
)
from strandline_broker.hosts.controller.pipeline import QUEUE_MAX, Pipeline, replay_log
from strandline_broker.storage.controller.metadata_log import MetadataLog, NoRoom
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_proto.errors import InvalidRequest, ThrottlingQuotaExceeded
from strandline_proto.ids import BrokerEpoch, ControllerEpoch, TopicId
from strandline_runtime.real import real_runtime
from support.controller_cluster import B1, registration
from support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.push import MetadataDelta


class Stopped(BaseException):
    """The process would have ended here."""


def stop(why: str) -> NoReturn:
    raise Stopped(why)


class FailingStore(MemoryStore):
    """Writes fail when the test says so."""

    fails = False
    is_full = False

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        if self.fails:
            raise OSError(5, "Input/output error")
        if self.is_full:
            raise NoRoom("free disk space")
        return super().append(values, controller_epoch=controller_epoch, now_ms=now_ms)


class Bench:
    def __init__(self, log: FailingStore | MetadataLog) -> None:
        self.state = ControllerState()
        self.published: list[tuple[int, int]] = []
        self.log = log
        runtime = replace(real_runtime("test"), exit=stop)
        self.pipeline = Pipeline(runtime, self.state, log, self._on_commit)

    def _on_commit(self, records: Sequence[AnyRecord], envelope: MetadataDelta) -> None:
        self.published.append((self.log.end_offset, self.state.last_offset))

    async def start(self) -> None:
        await self.pipeline.commit(decide_start(self.state, min_insync_replicas=1).records)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.pipeline.run())
            yield
            task.cancel()
        self.pipeline.close()


def config(value: str) -> Decision[str]:
    return Decision((ConfigRecord(key="k", value=value),), answer=value)


async def test_an_answer_comes_after_the_log_the_state_and_the_push() -> None:
    bench = Bench(FailingStore())
    await bench.start()
    async with bench.running():
        assert await bench.pipeline.submit(lambda: config("one")) == "one"
        assert bench.state.defaults["k"] == "one"
        assert bench.published[-1] == (3, 2)


async def test_each_decision_sees_what_the_ones_before_it_committed() -> None:
    bench = Bench(FailingStore())
    await bench.start()

    def count() -> Decision[str]:
        return config(str(int(bench.state.defaults.get("k", "0")) + 1))

    async with bench.running():
        answers = await asyncio.gather(*(bench.pipeline.submit(count) for _ in range(20)))
    assert answers == [str(n) for n in range(1, 21)]


async def test_what_is_decided_is_pending_until_it_is_committed() -> None:
    bench = Bench(FailingStore())
    await bench.start()
    assert bench.pipeline.pending == ()
    record = config("one").records
    committing = asyncio.ensure_future(bench.pipeline.commit(record))
    await asyncio.sleep(0)
    assert bench.pipeline.pending is record
    assert bench.published == [(2, 1)], "nobody knows of it"
    await committing
    assert bench.pipeline.pending == ()
    bench.pipeline.close()


async def test_a_refusal_writes_nothing_and_the_next_decision_is_taken() -> None:
    log = FailingStore()
    bench = Bench(log)
    await bench.start()

    def refuse() -> Decision[str]:
        raise InvalidRequest("no")

    async with bench.running():
        with pytest.raises(InvalidRequest):
            await bench.pipeline.submit(refuse)
        assert len(log.values) == 1
        assert await bench.pipeline.submit(lambda: config("one")) == "one"


async def test_a_decision_that_fails_is_its_askers_and_the_next_one_is_taken() -> None:
    bench = Bench(FailingStore())
    await bench.start()

    def fail() -> Decision[str]:
        raise KeyError("nobody foresaw this")

    async with bench.running():
        with pytest.raises(KeyError):
            await bench.pipeline.submit(fail)
        assert await bench.pipeline.submit(lambda: config("one")) == "one"


async def test_who_leaves_before_its_turn_is_not_decided_for() -> None:
    bench = Bench(FailingStore())
    await bench.start()
    async with asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(bench.pipeline.submit(lambda: config("gone")))
        await asyncio.sleep(0)
        gone.cancel()
    async with bench.running():
        await bench.pipeline.submit(lambda: config("stays"))
    assert bench.state.defaults["k"] == "stays"
    assert len(bench.published) == 2


async def test_a_full_queue_refuses_at_once() -> None:
    bench = Bench(FailingStore())
    async with asyncio.TaskGroup() as tasks:
        waiting = [
            tasks.create_task(bench.pipeline.submit(lambda: config("x"))) for _ in range(QUEUE_MAX)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ThrottlingQuotaExceeded):
            await bench.pipeline.submit(lambda: config("one too many"))
        for task in waiting:
            task.cancel()


async def test_a_failed_write_ends_the_process_before_anyone_hears_of_it() -> None:
    log = FailingStore()
    bench = Bench(log)
    await bench.start()
    log.fails = True
    with pytest.raises(Stopped, match="could not be written"):
        await bench.pipeline.commit(config("lost").records)
    assert "k" not in bench.state.defaults
    assert len(bench.published) == 1


async def test_a_decision_without_room_is_refused_and_the_process_goes_on() -> None:
    log = FailingStore()
    bench = Bench(log)
    await bench.start()
    async with bench.running():
        log.is_full = True
        settled = bench.pipeline._settled
        for _ in range(2):
            with pytest.raises(NoRoom, match="free disk space"):
                await bench.pipeline.submit(lambda: config("lost"))
        assert "k" not in bench.state.defaults
        assert settled.is_set(), "who waits for what was decided need not wait any longer"
        assert bench.pipeline.pending == ()
        assert len(bench.published) == 1
        log.is_full = False
        assert await bench.pipeline.submit(lambda: config("kept")) == "kept"
    assert bench.state.defaults["k"] == "kept"


def open_log(path: Path) -> tuple[DataDirectory, MetadataLog]:
    runtime = real_runtime("test")
    directory = DataDirectory.open(
        runtime.fs, str(path), node_id=100, cluster_id="c", new_id=runtime.random_id
    )
    return directory, MetadataLog.open(runtime.fs, directory, lambda _: None)


def registers(bench: Bench) -> Decision[object]:
    decision = decide_registration(
        bench.state,
        Sessions(1000),
        registration(B1, "one"),
        cluster_id="c",
        store_id="s",
        now_ms=0,
    )
    return Decision(decision.records, decision.answer)


def creates(bench: Bench, name: str, partitions: int = 3) -> Decision[object]:
    decision = decide_create_topic(
        bench.state,
        NewTopic(name, partitions, 1, (), (("segment.bytes", "1000"),)),
        defaults=TopicDefaults(1, 1),
        topic_id=TopicId(name.encode() * 16),
        validate_only=False,
    )
    return Decision(decision.records, decision.answer)


async def test_a_crash_after_any_batch_leaves_a_log_that_gives_that_state(tmp_path: Path) -> None:
    directory, log = open_log(tmp_path / "live")
    bench = Bench(log)
    state = bench.state

    def epoch() -> BrokerEpoch:
        return state.brokers[B1].epoch

    decisions: list[Callable[[], Decision[Any]]] = [
        partial(registers, bench),
        lambda: decide_unfence(state, B1, epoch(), applied=state.last_offset),
        partial(creates, bench, "a"),
        partial(creates, bench, "b"),
        lambda: decide_producer_ids(state, B1, epoch()),
    ]
    expected: list[str] = []
    await bench.start()
    async with bench.running():
        for decide in decisions:
            await bench.pipeline.submit(decide)
            # What a crash at this moment would leave, and the state it has to give.
            shutil.copytree(tmp_path / "live", tmp_path / f"crash-{len(expected)}")
            expected.append(repr(state))
    log.close()
    directory.close()
    for number, text in enumerate(expected):
        reopened, its_log = open_log(tmp_path / f"crash-{number}")
        replayed = ControllerState()
        replay_log(replayed, its_log)
        assert repr(replayed) == text
        its_log.close()
        reopened.close()


async def test_a_large_batch_is_worked_off_in_slices_and_is_true_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I-82. Others have turns meanwhile, and see nothing of it before they see all."""
    log = FailingStore()
    bench = Bench(log)
    state, done, most = bench.state, 0, 0
    await bench.start()

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def once(*args: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            return work(*args, **named)

        return once

    async def look() -> None:
        nonlocal done, most
        while True:
            seen.add(seen_now())
            done, most = 0, max(most, done)
            await asyncio.sleep(0)

    def seen_now() -> tuple[int, int, int]:
        return state.last_offset, len(state.index.hosted.get(B1, ())), len(bench.published)

    def epoch() -> BrokerEpoch:
        return state.brokers[B1].epoch

    many = 5 * push.SLICE
    large: list[Callable[[], Decision[Any]]] = [
        lambda: creates(bench, "l", many),
        lambda: decide_fence(state, B1, epoch()),
        lambda: decide_unfence(state, B1, epoch(), applied=state.last_offset),
    ]
    async with bench.running():
        await bench.pipeline.submit(partial(registers, bench))
        await bench.pipeline.submit(large[-1])
        monkeypatch.setattr(ControllerState, "replay", counted(ControllerState.replay))
        monkeypatch.setattr(push, "_pushed", counted(push._pushed))
        for decide in large:
            seen = {seen_now()}
            looking = asyncio.create_task(look())
            await bench.pipeline.submit(decide)
            await asyncio.sleep(0)
            looking.cancel()
            assert len(seen) == 2, "before and after"
    assert 0 < most <= push.SLICE
    replayed = ControllerState()
    replay_log(replayed, log)
    assert replayed == state


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ([[ConfigRecord(topic_id=TopicId(bytes(16)), key="k", value="v")]], "KeyError"),
        ([[ControllerEpochRecord(epoch=ControllerEpoch(0))]] * 2, "BrokenRule"),
    ],
)
def test_a_log_whose_records_do_not_follow_each_other_is_refused(
    batches: list[list[AnyRecord]], said: str
) -> None:
    store = MemoryStore()
    store.values = [[encode(record) for record in batch] for batch in batches]
    with pytest.raises(ValueError, match=f"does not follow from what came before .{said}"):
        replay_log(ControllerState(), store)


def test_a_log_with_a_hole_is_refused() -> None:
    class Holed(MemoryStore):
        def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
            yield 1, 1, [encode(ConfigRecord(key="k", value="v"))]

    with pytest.raises(ValueError, match="offsets 1 to 1, where 0 must follow"):
        replay_log(ControllerState(), Holed())
