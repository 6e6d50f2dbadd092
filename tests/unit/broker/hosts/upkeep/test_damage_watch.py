"""What the watch over damage does about producers whose batches seemed to be damaged."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.replica.suspects import Suspects
from strandline_broker.hosts.upkeep import damage_watch
from strandline_broker.hosts.upkeep.damage_watch import DamageWatch
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange, DamagedRanges
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import BrokerId
from support.disk import Hurried
from support.storage import Store, damaged


class FakePartition:
    """A follower whose producers' state was read around damage that was none."""

    name = "t-0"
    key = (b"t", 0)
    out_of_service: str | None = None
    unusable: str | None = None
    healing = False
    state = None
    leader_epoch = 1
    follower = None
    is_unsure_of_transactions = False

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
        self.healed_from: int | None = None

    def forget(self, key: object) -> None:
        assert key == self.key
        self.is_fetched = False

    def fetch(self, partition: object) -> None:
        assert partition is self
        self.is_fetched = True

    async def heal_from(self, offset: int) -> None:
        self.healed_from = offset

    async def reload_producers(self) -> None:
        assert self.gate.locked()
        assert not self.is_fetched, "other partitions of that leader would wait"
        self.rebuilt += 1
        if self.error is not None:
            raise self.error
        self.log.replay_lacks = False


def may_heal(state: object, *, leader_is_offline: bool = False, is_answered: bool = True) -> bool:
    """A follower whose damage the controller knows of, under broker 1; the broker is number 3."""
    partition: Any = FakePartition()
    partition.log.damaged_ranges.above = lambda _: ("some",)
    partition.state = state
    partition.follower = SimpleNamespace(may_fetch=True, is_answered=is_answered)
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
    assert not may_heal(led_by_1(1, 2), is_answered=False), "what it asks for may come behind a cut"


async def looked_at_before_whoever_waits(
    watch: DamageWatch, partition: FakePartition, comes_first: Callable[[], None]
) -> None:
    """A look in the very step in which the gate is let go, while somebody waits for it."""

    async def wait() -> None:
        async with partition.gate:
            comes_first()

    async with partition.gate:
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
    assert not partition.gate.locked()
    await watch.look()
    await waiter


@pytest.mark.parametrize("by", ["role", "deletion"])
async def test_what_has_waited_for_the_gate_comes_before_a_healing(by: str) -> None:
    """A deletion of the damaged records leaves nothing to heal, and another role may forbid it
    (I-15, I-75): a gate that is free need not be free for whoever asks next.
    """
    partition: Any = FakePartition()
    partition.log.replay_lacks, partition.log.log_end_offset = False, 9
    partition.high_watermark = 9
    damage = SimpleNamespace(start=5)
    ranges = partition.log.damaged_ranges = SimpleNamespace(entries=(damage,))
    ranges.above = lambda _: ranges.entries
    partition.state = led_by_1(1, 2)
    partition.follower = SimpleNamespace(may_fetch=True, is_answered=True, leader=1)
    suspects = Suspects({partition.key: partition})
    suspects.add(partition)
    watch: Any = watch_over(partition, suspects=suspects, warn=lambda *_, **__: None)
    watch._seen[partition] = ranges.entries
    watch._controller.offline_known_at = lambda _: 20
    told = SimpleNamespace(offline_replicas=(3,))
    view = SimpleNamespace(partition=lambda *_: told)
    watch._metadata = SimpleNamespace(applied_offset=20, view=view)
    assert watch.may_heal(partition)

    def comes_first() -> None:
        if by == "deletion":
            ranges.entries = ()
        else:
            partition.state = led_by_1(1, 3)

    await looked_at_before_whoever_waits(watch, partition, comes_first)
    assert partition.healed_from is None
    assert partition.is_fetched


async def test_what_has_waited_for_the_gate_comes_before_producers_are_read_again() -> None:
    """A role has read them by then."""
    partition: Any = FakePartition()
    suspects = Suspects({partition.key: partition})
    suspects.add(partition)

    def reads() -> None:
        partition.log.replay_lacks = False

    watch = watch_over(partition, suspects=suspects)
    await looked_at_before_whoever_waits(watch, partition, reads)
    assert partition.rebuilt == 0


class Lane:
    """Of the only log; what is done in it."""

    def __init__(self) -> None:
        self.log: object = None

    async def in_disk_pool(self, log: object, work: Callable[[], object]) -> None:
        self.log = log
        work()


def watch_over(
    partition: Any,
    *,
    suspects: Any = None,
    dirs: Any = None,
    scrub: Any = None,
    warn: Any = None,
) -> DamageWatch:
    log = SimpleNamespace(warning=warn, error=lambda *_, **__: None)
    runtime: Any = SimpleNamespace(log=log, metrics=CollectorRegistry())
    unused: Any = None
    noted_nowhere: Any = SimpleNamespace(noting=lambda *_, **__: contextlib.nullcontext())
    controller: Any = SimpleNamespace(report_offline=lambda: None)
    return DamageWatch(
        runtime,
        BrokerId(3),
        dirs,
        unused,
        controller,
        suspects=suspects,
        scrub=scrub,
        fetchers=partition,
        cuts=noted_nowhere,
    )


def look(partition: FakePartition, times: int = 1) -> list[str]:
    """The warnings of so many rounds."""
    told = list[str]()

    def warn(message: str, **_: Any) -> None:
        told.append(message)

    known: Any = partition
    suspects = Suspects({partition.key: known})
    suspects.add(known)
    watch = watch_over(partition, suspects=suspects, warn=warn)

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


@pytest.mark.parametrize("why", ["out", "damaged"])
def test_they_are_not_read_while_they_cannot_be_whole(why: str) -> None:
    partition = FakePartition()
    if why == "out":
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


async def test_what_is_known_of_a_removed_log_is_not_noted_of_the_next_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at a segment takes its time; the topic may be deleted and created anew meanwhile
    (I-36).
    """
    store = Store(tmp_path / "data", fs=Hurried())
    partition: Any = FakePartition()
    partition.log = log = store.log
    log.damaged_ranges.add(DamagedRange(0, 1, 0, 0, NOWHERE, "flipped"))

    def anew(*_: object) -> None:
        store.directory.delete_log(log)
        store.log = store.create(bytes(16))

    monkeypatch.setattr(damage_watch, "check_segment", anew)
    with ThreadPoolExecutor(1) as scrub:
        watch: Any = watch_over(partition, scrub=scrub, dirs=Lane())
        await watch._take_note(partition)
    store.append(b"v")
    store.log.roll()
    store.flush()
    store.checkpoint()
    assert damaged(store.restart()) == []


async def test_what_is_known_is_noted_where_the_log_is_cut(tmp_path: Path) -> None:
    """Of two threads the last to write may know of ranges that a cut has taken (I-7)."""
    store = Store(tmp_path / "data", fs=Hurried())
    partition: Any = FakePartition()
    partition.log = log = store.log
    log.damaged_ranges.set([DamagedRange(0, 1, 0, 0, NOWHERE, "flipped")])
    lane = Lane()
    watch: Any = watch_over(partition, dirs=lane)
    await watch._take_note(partition)
    assert lane.log is log
    assert store.log.damaged_ranges.entries == DamagedRanges.load(store.fs, log.path, print).entries


async def test_what_is_found_while_the_rest_is_noted_is_noted_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may keep the note waiting, and a reader goes on meanwhile: what it meets is looked
    at closely and noted as well, or the next process knows nothing of it (I-7).
    """
    store = Store(tmp_path / "data", fs=Hurried())
    partition: Any = FakePartition()
    partition.log = log = store.log
    log.damaged_ranges.add(DamagedRange(0, 1, 0, 0, NOWHERE, "flipped"))
    looked_at: list[int] = []
    monkeypatch.setattr(damage_watch, "check_segment", lambda _, segment: looked_at.append(segment))

    class Waiting(Lane):
        async def in_disk_pool(self, log: object, work: Callable[[], object]) -> None:
            await super().in_disk_pool(log, work)
            store.log.damaged_ranges.add(DamagedRange(7, 8, 5, 0, NOWHERE, "flipped"))

    suspects = Suspects({partition.key: partition})
    suspects.add(partition)
    with ThreadPoolExecutor(1) as scrub:
        watch = watch_over(partition, suspects=suspects, scrub=scrub, dirs=Waiting())
        for _ in range(3):
            await watch.look()
    assert 5 in looked_at
    noted = DamagedRanges.load(store.fs, log.path, print).entries
    assert [each.start for each in noted] == [0, 7]
    assert log.damaged_ranges.entries == noted


async def test_what_is_found_while_another_segment_is_looked_at_is_looked_at_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "data", fs=Hurried())
    partition: Any = FakePartition()
    partition.log = log = store.log
    log.damaged_ranges.add(DamagedRange(0, 1, 0, 0, NOWHERE, "flipped"))

    def check(_: object, segment: int) -> None:
        if segment == 0:
            log.damaged_ranges.add(DamagedRange(7, 8, 5, 0, NOWHERE, "flipped"))
        log.damaged_ranges.replace(segment, [])

    monkeypatch.setattr(damage_watch, "check_segment", check)
    with ThreadPoolExecutor(1) as scrub:
        watch: Any = watch_over(partition, scrub=scrub, dirs=Lane())
        await watch._take_note(partition)
    assert log.damaged_ranges.entries == ()
    assert log.damaged_ranges.unsure == frozenset()
