"""Virtual time: asyncio works as documented, owners live and die, and a seed repeats itself."""

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from strandline_proof.sim.loop.executor import SimExecutor
from strandline_proof.sim.loop.loop import Deadlock, Livelock, SimLoop
from strandline_proof.sim.loop.owner import Stopped

HOUR_S = 3600.0


def run(main: Coroutine[Any, Any, Any], loop: SimLoop | None = None) -> Any:
    loop = loop or SimLoop()
    try:
        return loop.run(main)
    finally:
        loop.close()


def wait(seconds: float) -> Coroutine[Any, Any, None]:
    return asyncio.sleep(seconds)


def test_an_hour_passes_at_once() -> None:
    loop = SimLoop()
    run(wait(HOUR_S), loop)
    assert HOUR_S <= loop.now < HOUR_S + 0.001


def test_timeouts_groups_queues_locks_and_events_work() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock, event = asyncio.Lock(), asyncio.Event()

        async def put() -> None:
            for n in range(3):
                await queue.put(n)
            event.set()

        async def take() -> None:
            for _ in range(3):
                async with lock:
                    seen.append(str(await queue.get()))

        async with asyncio.TaskGroup() as group:
            group.create_task(put())
            group.create_task(take())
            await event.wait()
        try:
            async with asyncio.timeout(2.0):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("late")
        return seen

    assert run(main()) == ["0", "1", "2", "late"]


def test_callbacks_run_in_the_order_in_which_they_were_asked_for() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        for n in range(50):
            loop.call_soon(seen.append, n)
        await wait(0)
        await wait(0.1)
        return seen

    assert run(main()) == list(range(50))


def test_a_run_that_waits_for_nothing_is_a_deadlock_and_says_who_waits() -> None:
    with pytest.raises(Deadlock, match="main"):
        run(asyncio.Event().wait())


def test_a_run_that_never_gets_anywhere_is_a_livelock() -> None:
    async def spin() -> None:
        while True:
            await wait(0)

    with pytest.raises(Livelock):
        run(spin(), SimLoop(steps_max=1000))


def test_nothing_of_a_dead_owner_runs_not_even_its_finally() -> None:
    loop = SimLoop()
    seen: list[str] = []

    async def node() -> None:
        try:
            while True:
                await wait(1.0)
                seen.append("beat")
        finally:
            if loop.now < HOUR_S:
                seen.append("finally")

    async def main() -> None:
        owner = loop.new_owner("n")
        owner.run(loop.create_task, node())
        await wait(2.5)
        loop.kill(owner)
        await wait(HOUR_S)

    run(main(), loop)
    assert seen == ["beat", "beat"]


def test_a_paused_owner_catches_up_with_everything_in_order() -> None:
    loop = SimLoop()
    seen: list[tuple[float, int]] = []

    async def main() -> None:
        owner = loop.new_owner("n")
        for n in range(4):
            loop.post(float(n), owner, lambda n=n: seen.append((round(loop.now), n)))
        await wait(0.5)
        loop.pause(owner)
        await wait(9.5)
        loop.resume(owner)
        await wait(1.0)

    run(main(), loop)
    assert seen == [(0, 0), (10, 1), (10, 2), (10, 3)]


def test_a_step_that_blocks_its_node_does_not_block_the_others() -> None:
    loop = SimLoop()
    seen: list[tuple[str, float]] = []

    async def main() -> None:
        slow, other = loop.new_owner("slow"), loop.new_owner("other")

        def block() -> None:
            slow.busy_s += 1.0

        loop.post(0.1, slow, block)
        loop.post(0.2, slow, lambda: seen.append(("slow", round(loop.now, 1))))
        loop.post(0.2, other, lambda: seen.append(("other", round(loop.now, 1))))
        await wait(2.0)

    run(main(), loop)
    assert seen == [("other", 0.2), ("slow", 1.1)]


def test_a_fast_clock_ends_its_waits_early_and_does_not_jump() -> None:
    loop = SimLoop()
    ended: list[float] = []

    async def node() -> None:
        await wait(1.0)
        ended.append(loop.now)
        await wait(1.0)
        ended.append(loop.now)

    async def main() -> None:
        owner = loop.new_owner("n")
        owner.run(loop.create_task, node())
        await wait(1.5)
        before = owner.local(loop.now)
        owner.set_rate(loop.now, 2.0)
        assert owner.local(loop.now) == before
        owner.run(loop.create_task, node())
        await wait(5.0)

    run(main(), loop)
    assert [round(t, 2) for t in ended] == [1.0, 2.0, 2.0, 2.5]


def test_an_executor_is_serial_and_a_cancelled_waiter_stops_only_what_has_not_begun() -> None:
    loop = SimLoop()
    seen: list[int] = []

    async def main() -> None:
        executor = SimExecutor(loop, lambda: 1.0)
        jobs = [loop.run_in_executor(executor, seen.append, n) for n in range(3)]
        jobs[1].cancel()
        await jobs[2]
        assert round(loop.now) == 3

    run(main(), loop)
    assert seen == [0, 2]


def test_an_operation_that_hangs_holds_up_its_thread_and_nothing_else() -> None:
    loop = SimLoop()
    seen: list[tuple[str, float]] = []

    def note(what: str) -> None:
        seen.append((what, round(loop.now)))

    async def main() -> None:
        thread, other = SimExecutor(loop, lambda: 1.0), SimExecutor(loop, lambda: 1.0)

        def hangs() -> None:
            note("begun")
            assert thread.hang(5.0)
            assert not other.hang(5.0)

        first = loop.run_in_executor(thread, hangs)
        queued = loop.run_in_executor(thread, note, "queued")
        await loop.run_in_executor(other, note, "other thread")
        note("loop goes on")
        assert not first.done()
        late = loop.run_in_executor(thread, note, "asked for meanwhile")
        await first
        note("told")
        await queued
        await late
        assert not thread.hang(5.0), "no function of it runs"

    run(main(), loop)
    assert seen == [
        ("begun", 1),
        ("other thread", 1),
        ("loop goes on", 1),
        ("queued", 6),
        ("told", 6),
        ("asked for meanwhile", 7),
    ]


def test_an_executor_tells_what_its_function_raised() -> None:
    loop = SimLoop()

    def broken() -> None:
        raise OSError(5, "no")

    async def main() -> None:
        with pytest.raises(OSError, match="no"):
            await loop.run_in_executor(SimExecutor(loop, lambda: 0.1), broken)

    run(main(), loop)


def test_a_process_that_stops_in_the_middle_of_a_function_leaves_its_waiter_alone() -> None:
    loop = SimLoop()
    seen: list[str] = []

    async def main() -> None:
        owner = loop.new_owner("n")

        def stop() -> None:
            loop.kill(owner)
            raise Stopped

        async def node() -> None:
            await loop.run_in_executor(SimExecutor(loop, lambda: 0.1), stop)
            seen.append("went on")

        owner.run(loop.create_task, node())
        await wait(1.0)

    run(main(), loop)
    assert seen == []
    assert loop.uncaught == []


def test_an_error_in_a_callback_is_kept() -> None:
    loop = SimLoop()

    async def main() -> None:
        loop.call_soon(int, "x")
        await wait(0.1)

    run(main(), loop)
    assert isinstance(loop.uncaught[0]["exception"], ValueError)


def digest_of(seed: int) -> str:
    loop = SimLoop()
    rng = random.Random(seed)

    async def node() -> None:
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rng.random()):
                    await wait(rng.random())

    async def main() -> None:
        for n in range(5):
            loop.new_owner(f"n{n}").run(loop.create_task, node())
        await wait(60.0)

    run(main(), loop)
    return loop.digest()


def test_a_seed_repeats_itself_and_differs_from_others() -> None:
    assert digest_of(1) == digest_of(1) != digest_of(2)


def test_a_task_gives_way_only_to_what_would_run_in_its_own_life() -> None:
    loop, seen = SimLoop(), []

    async def main() -> None:
        a, b = loop.new_owner("a"), loop.new_owner("b")

        async def ask() -> None:
            seen.append(loop.others_are_due())
            timer = loop.call_soon(print)
            seen.append(loop.others_are_due())
            timer.cancel()
            seen.append(loop.others_are_due())
            b.run(loop.call_soon, int)
            seen.append(loop.others_are_due())

        await a.run(loop.create_task, ask())

    run(main(), loop)
    assert seen == [False, True, False, False]


def test_a_task_that_waits_for_nothing_is_made_to_give_way_now_and_then() -> None:
    loop = SimLoop()
    assert any(loop.others_are_due() for _ in range(100))


def test_a_set_of_tasks_is_in_the_order_of_their_numbers() -> None:
    async def main() -> list[str]:
        tasks = {asyncio.get_running_loop().create_task(wait(0.1)) for _ in range(50)}
        names = [task.get_name() for task in tasks]
        await asyncio.wait(tasks)
        return names

    assert run(main()) == run(main())
