"""What commands that move replicas make of answers that are not of one moment."""

from types import SimpleNamespace
from typing import Any

from strandline.errors import OperationTimedOut
from strandline.types import TopicPartition
from strandline_cli.planning.reassigning import current_replicas, wait_until_done


class FakeAdmin:
    """A broker that has heard of the move's end only after `stale` questions, and a controller for
    which it is under way in the first `moving` ones, and until the broker is asked. It ends at
    `end`; the first `failing` questions to the broker fail.
    """

    def __init__(
        self, *, moving: int, stale: int, end: tuple[int, ...] = (1, 2), failing: int = 0
    ) -> None:
        self.moving = moving
        self.stale = stale
        self.end = end
        self.failing = failing

    async def list_partition_reassignments(self) -> dict[TopicPartition, Any]:
        self.moving -= 1
        if self.moving < 0:
            return {}
        move = SimpleNamespace(
            target=(1, 2), adding=(1,), removing=(3,), isr=(2, 3), leader=2, replicas=(1, 2, 3)
        )
        return {TopicPartition("t", 0): move}

    async def describe_topics(
        self, topics: object = None, *, include_internal: bool
    ) -> dict[str, Any]:
        self.failing -= 1
        if self.failing >= 0:
            raise OperationTimedOut("not yet")
        self.stale, self.moving = self.stale - 1, 0
        replicas = self.end if self.stale < 0 else (1, 2, 3)
        partition = SimpleNamespace(partition=0, replicas=replicas)
        return {"t": SimpleNamespace(name="t", partitions=[partition])}

    async def describe_replicas(self, topics: object) -> list[Any]:
        return []


async def test_a_move_that_ends_between_two_questions_is_at_its_target() -> None:
    admin: Any = FakeAdmin(moving=1, stale=1)
    assert await current_replicas(admin) == {("t", 0): (1, 2)}


async def test_whoever_waits_for_a_move_also_waits_until_brokers_have_heard_of_it() -> None:
    admin: Any = FakeAdmin(moving=1, stale=2)
    await wait_until_done(admin, {("t", 0): (1, 2)}, 30.0)
    assert await current_replicas(admin) == {("t", 0): (1, 2)}


async def test_a_move_that_is_cancelled_between_two_questions_is_where_it_was() -> None:
    admin: Any = FakeAdmin(moving=1, stale=2, end=(2, 3))
    assert await current_replicas(admin) == {("t", 0): (2, 3)}


async def test_a_move_that_is_done_is_no_error_because_a_broker_does_not_answer() -> None:
    admin: Any = FakeAdmin(moving=1, stale=1, failing=3)
    await wait_until_done(admin, {("t", 0): (1, 2)}, 30.0)
    assert await current_replicas(admin) == {("t", 0): (1, 2)}
    silent: Any = FakeAdmin(moving=1, stale=1, failing=10**6)
    await wait_until_done(silent, {("t", 0): (1, 2)}, 0.3)
