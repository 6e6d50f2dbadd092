"""What the watch over damage does about producers whose batches seemed to be damaged."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.damage_watch import DamageWatch
from strandline_broker.hosts.suspects import Suspects
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import BrokerId


class FakePartition:
    """A follower whose producers' state was read around damage that was none."""

    name = "t-0"
    key = (b"t", 0)
    out_of_service: str | None = None
    healing = False
    state = None
    follower = None
    leader: object = None

    def __init__(self) -> None:
        ranges = SimpleNamespace(entries=(), unsure=frozenset(), above=lambda _: ())
        self.log = SimpleNamespace(
            replay_lacks=True, damaged_ranges=ranges, log_start_offset=0, damaged=None
        )
        self.other_history = self.refused = None
        self.gate = asyncio.Lock()
        self.error: KafkaStorageError | None = None
        self.rebuilt = 0
        self.is_fetched = True

    def forget(self, key: object) -> None:
        assert key == self.key
        self.is_fetched = False

    def fetch(self, partition: object) -> None:
        assert partition is self
        self.is_fetched = True

    async def rebuild_producers(self) -> None:
        assert self.gate.locked()
        assert not self.is_fetched, "other partitions of that leader would wait"
        self.rebuilt += 1
        if self.error is not None:
            raise self.error
        self.log.replay_lacks = False


def may_heal(state: object, *, leader_is_offline: bool = False) -> bool:
    """A follower whose damage the controller knows of, under broker 1; the broker is number 3."""
    partition: Any = FakePartition()
    partition.log.damaged_ranges.above = lambda _: ("some",)
    partition.state, partition.follower = state, SimpleNamespace(may_fetch=True)
    offline = (1, 3) if leader_is_offline else (3,)
    told = SimpleNamespace(offline_replicas=offline)
    view = SimpleNamespace(partition=lambda *_: told)
    watch: Any = SimpleNamespace(
        _me=3,
        _controller=SimpleNamespace(offline_known_at=lambda _: 20),
        _metadata=SimpleNamespace(applied_offset=20, view=view),
    )
    return DamageWatch.may_heal(watch, partition)


def led_by_1(*isr: int, elr: tuple[int, ...] = ()) -> SimpleNamespace:
    members = tuple(SimpleNamespace(broker_id=number) for number in isr)
    return SimpleNamespace(leader=1, isr=members, elr=elr)


def test_whoever_may_be_elected_cuts_nothing() -> None:
    """I-15, I-41: in the ISR or the ELR it holds all that is committed."""
    assert may_heal(led_by_1(1, 2))
    assert may_heal(led_by_1(1, elr=(2,)))
    assert not may_heal(led_by_1(1, 3))
    assert not may_heal(led_by_1(1, elr=(3,)))
    assert not may_heal(led_by_1(1, 2), leader_is_offline=True)


def look(partition: FakePartition, times: int = 1) -> list[str]:
    """The warnings of so many rounds."""
    told = list[str]()

    def warn(message: str, **_: Any) -> None:
        told.append(message)

    runtime: Any = SimpleNamespace(log=SimpleNamespace(warning=warn), metrics=CollectorRegistry())
    known: Any = partition
    suspects = Suspects({partition.key: known})
    suspects.add(known)
    unused: Any = None
    fetchers: Any = partition
    watch = DamageWatch(
        runtime,
        BrokerId(3),
        unused,
        unused,
        unused,
        suspects=suspects,
        scrub=unused,
        fetchers=fetchers,
    )

    async def run() -> None:
        for _ in range(times):
            await watch.look()

    asyncio.run(run())
    assert suspects.all() == ([known] if partition.log.replay_lacks else [])
    assert partition.is_fetched
    return told


def test_the_producers_of_a_follower_are_read_again_once() -> None:
    partition = FakePartition()
    assert look(partition, times=2) == []
    assert partition.rebuilt == 1


@pytest.mark.parametrize("why", ["leads", "out", "damaged"])
def test_they_are_not_read_while_they_may_change_or_cannot_be_whole(why: str) -> None:
    partition = FakePartition()
    if why == "leads":
        partition.leader = object()
    elif why == "out":
        partition.out_of_service = "EIO"
    else:
        partition.log.damaged_ranges.entries = ("some",)
    watch_of: Any = partition
    assert not DamageWatch._may_replay(watch_of, watch_of)
    assert partition.rebuilt == 0


def test_a_failure_is_told_and_tried_again() -> None:
    partition = FakePartition()
    partition.error = KafkaStorageError("the disk is full")
    assert look(partition, times=2) == ["producers not read"] * 2
    assert partition.rebuilt == 2
