"""What producers with acks of 0 and 1 are held to."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, Self

import pytest

from strandline.types import TopicPartition
from strandline_chaos.payload import encode
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.low_acks import PARTITION, Loose, Sent

ALL = {
    0: Sent(1, "ok", 0, 5),
    1: Sent(0, "ok", -1, -1),
    2: Sent(1, "failed"),
    3: Sent(1),
}


def judge(final: dict[int, tuple[int, int]], *, epoch: int = 5, **how: Any) -> Counter[str]:
    """`final`: by offset, value and epoch; the partition's leader epoch is `epoch` now."""
    world: Any = SimpleNamespace()
    some: Counter[str] = Counter()
    loose = Loose(world, some)
    loose.sent = dict(ALL)
    loose.final, loose.is_complete = final, how.pop("complete", True)
    loose.read = how.pop("read", {})
    loose.leader_epoch = lambda: epoch
    loose.check_end(excused=how.pop("excused", False))
    return some


def test_what_was_acknowledged_is_there_and_what_was_not_may_be() -> None:
    judge({0: (0, 5)})
    judge({0: (0, 5), 1: (1, 5), 2: (3, 5)}, read={1: 1})


def test_it_may_be_gone_after_an_election() -> None:
    gone = "acknowledged with acks=1 and gone after an election"
    assert judge({}, epoch=6)[gone] == 1
    assert judge({0: (3, 6)}, epoch=6)[gone] == 1
    assert judge({0: (0, 5)}, epoch=6)[gone] == 0


@pytest.mark.parametrize(
    ("final", "epoch", "why"),
    [
        ({}, 5, "value 0 was acknowledged with acks=1 at offset 0 in leader epoch 5"),
        ({0: (3, 5)}, 5, "there is 3 of epoch 5 now"),
        ({0: (3, 5)}, 6, "there is 3 of epoch 5 now"),
        ({0: (0, 5), 1: (0, 5)}, 5, "value 0 stands at offsets 0 and 1"),
        ({0: (0, 5), 1: (2, 5)}, 5, "value 2 is at 1, and surely was not written"),
    ],
)
def test_a_broken_promise_is_told(final: dict[int, tuple[int, int]], epoch: int, why: str) -> None:
    with pytest.raises(Violation, match=why):
        judge(final, epoch=epoch)


def test_what_was_read_stays() -> None:
    with pytest.raises(Violation, match="value 3 was read at 1, and is there no more"):
        judge({0: (0, 5)}, read={1: 3})
    judge({0: (0, 5)}, read={1: 3}, excused=True)


def test_it_has_to_be_read_to_its_end() -> None:
    with pytest.raises(Violation, match="is not read to its end"):
        judge({}, complete=False)
    judge({}, complete=False, excused=True)


class SlowlyGiven:
    """A consumer of a log of as many `records`, committed up to its first when the end is asked
    for, and another with each poll.
    """

    def __init__(self, clock: Any, records: int) -> None:
        self._clock = clock
        self._records = records
        self._next = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def assign(self, partitions: list[TopicPartition]) -> None: ...

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    async def position(self, _partition: TopicPartition) -> int:
        return self._next

    async def getmany(self, *, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self._clock.now += timeout_ms / 1000
        if self._next == self._records:
            return {}
        offset, self._next = self._next, self._next + 1
        record = SimpleNamespace(offset=offset, value=encode(1, offset, 60), leader_epoch=5)
        return {PARTITION: [record]}


def read_back(*, records: int, epoch: int) -> Loose:
    """Values 0 to 2 were acknowledged at their offsets in epoch 5."""
    clock = SimpleNamespace(now=0.0)
    world: Any = SimpleNamespace(loop=clock)
    loose = Loose(world, Counter())
    loose.sent = {value: Sent(1, "ok", value, 5) for value in range(3)}
    loose.leader_epoch = lambda: epoch
    consumer: Any = SlowlyGiven(clock, records)
    loose._consumer = lambda _runtime: consumer  # type: ignore[method-assign, assignment]
    asyncio.run(loose._read_back(consumer))
    return loose


def test_the_last_reading_waits_for_followers_to_have_what_stands() -> None:
    loose = read_back(records=3, epoch=5)
    assert sorted(loose.final) == [0, 1, 2]
    loose.check_end(excused=False)


def test_it_does_not_wait_for_what_may_be_gone() -> None:
    loose = read_back(records=3, epoch=6)
    assert sorted(loose.final) == [0]
    loose.check_end(excused=False)


def test_it_does_not_wait_for_ever() -> None:
    loose = read_back(records=2, epoch=5)
    with pytest.raises(Violation, match="value 2 was acknowledged with acks=1 at offset 2"):
        loose.check_end(excused=False)
