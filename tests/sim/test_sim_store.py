"""A controller on an empty directory, on an old copy of its own, or on one that went on by itself:
each is refused by whom it meets, and nobody obeys it (P-76, I-92).
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable

import pytest

from strandline_proof.sim.cluster.world import World
from strandline_proof.sim.disk.parts import Directory
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import Topology

WAIT_S = 6.0


def run(seed: int, story: Callable[[World], Awaitable[None]]) -> None:
    world = World(seed, Topology(partitions=1))

    async def main() -> None:
        for node in list(world.nodes.values()):
            node.start()
        await asyncio.sleep(2.0)
        await story(world)

    try:
        world.loop.run(main())
    finally:
        world.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 -- virtual time
            await asyncio.sleep(0.05)


def obeyed(world: World) -> list[tuple[str, int, int]]:
    """What each broker says it has applied."""
    return [
        (m.store_id, m.controller_epoch, m.highest_offset)
        for m in (node.process.metadata for node in world.brokers)
    ]


def stopped_copy(world: World) -> Directory:
    world.controller.kill()
    return copy.deepcopy(world.controller.disk.root)


async def more_decisions(world: World) -> None:
    """Epochs, registrations and elections that a copy made before does not know."""
    state = world.controller.process.state
    before = state.last_offset
    world.brokers[0].kill()
    await asyncio.sleep(0.3)
    world.brokers[0].start()
    await until(lambda: state.last_offset > before + 4)
    await until(lambda: not any(b.fenced for b in state.brokers.values()))
    await until(lambda: all(o[2] == state.last_offset for o in obeyed(world)))


async def refused_and_then_replaced(world: World, false: Directory, why: str) -> None:
    """Start the controller on `false`; it ends, and on its own directory it goes on."""
    controller = world.controller
    true, before, exits = stopped_copy(world), obeyed(world), len(controller.exits)
    controller.disk.root = false
    controller.start()
    await until(lambda: len(controller.exits) > exits)
    assert why in controller.exits[-1]
    assert "strandline controller restore" in controller.exits[-1]
    assert obeyed(world) == before
    controller.disk.root = true
    controller.start()
    await until(lambda: controller.process is not None)
    state = controller.process.state
    await until(lambda: {o[2] for o in obeyed(world)} == {state.last_offset})
    await until(lambda: not any(b.fenced for b in state.brokers.values()))
    assert all(node.running and not node.exits for node in world.brokers)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_empty_directory_is_refused(seed: int) -> None:
    async def story(world: World) -> None:
        await refused_and_then_replaced(world, Directory(), "data directory was replaced")

    run(seed, story)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_old_copy_is_refused(seed: int) -> None:
    async def story(world: World) -> None:
        old = stopped_copy(world)
        world.controller.start()
        await until(lambda: world.controller.process is not None)
        await more_decisions(world)
        await refused_and_then_replaced(world, old, "data directory is an older copy")

    run(seed, story)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_copy_that_went_on_by_itself_is_refused_though_it_reaches_further(seed: int) -> None:
    async def story(world: World) -> None:
        controller = world.controller
        old = stopped_copy(world)
        controller.start()
        await until(lambda: controller.process is not None)
        await more_decisions(world)
        reached = controller.process.state.last_offset
        true = stopped_copy(world)
        for node in world.brokers:
            world.network.partition(controller.name, node.name, hold=False, one_way=False)
        controller.disk.root = old
        for _ in range(reached):  # each start is a decision of its own
            controller.start()
            await until(lambda: controller.process is not None)
            await asyncio.sleep(0.2)
            gone_on = controller.process.state.last_offset
            controller.kill()
            if gone_on > reached + 2:
                break
        assert gone_on > reached
        further = copy.deepcopy(controller.disk.root)
        controller.disk.root = true
        for node in world.brokers:
            world.network.heal(controller.name, node.name)
        controller.start()
        await until(lambda: controller.process is not None)
        state = controller.process.state
        await until(lambda: {o[2] for o in obeyed(world)} == {state.last_offset})
        await refused_and_then_replaced(world, further, "of epoch")

    run(seed, story)


@pytest.mark.parametrize("back", [0, 1])
def test_of_two_snapshots_one_may_be_damaged(back: int) -> None:
    """The oracles compare what the next start knows with what was known before (P-84)."""
    kills = [Fault(1.0 + n, "kill", {"node": f"broker-{n}", "restart_s": 0.2}) for n in (1, 2, 3)]
    flip = Fault(4.6, "snapshot-flip", {"back": back, "restart_s": 0.2})
    again = Fault(4.7, "snapshot-flip", {"back": 0, "restart_s": 0.2})
    plan = Plan(1, Topology(partitions=2), (*kills, flip, again), chaos_s=6.0)
    outcome = Run(plan).execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert outcome.struck == {"kill": 3, "snapshot-flip": 1}, "one at a time"
    assert outcome.sometimes["bit flipped: controller's snapshot"] == 1
    assert outcome.sometimes["controller began from a snapshot"] >= 1
    passed_over = "does not read" in outcome.timeline.text()
    assert passed_over == (back == 0), "the older one is not looked at"


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_restoration_everything_goes_on_above_what_was_said_before(seed: int) -> None:
    """A drawn fault does this too; all oracles watch the cluster before and after it."""
    busy = [
        Fault(at_s, "kill", {"node": f"broker-{n}", "restart_s": 0.2})
        for n, at_s in ((1, 3.0), (2, 3.8), (3, 4.6))
    ]
    old = Fault(2.5, "store-restored", {"age_s": 3.5, "meets_s": 0.5})
    run = Run(Plan(seed, Topology(partitions=2), (old, *busy)))
    outcome = run.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert outcome.sometimes["old store refused"] >= 1, "a supervisor starts it again"
    assert outcome.sometimes["store restored"] == 1
    state = run.world.controller.process.state
    assert state.last_offset > 1 << 20
    assert state.controller_epoch > 100
    assert all(p.leader_epoch > 1000 for p in state.partitions())
    assert not outcome.sometimes["loss permitted"]
