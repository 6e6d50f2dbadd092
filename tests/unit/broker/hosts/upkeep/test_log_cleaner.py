"""Which logs the cleaner looks at: those that are compacted, however many others there are."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from strandline_broker.hosts.upkeep.log_cleaner import LogCleaner
from strandline_broker.storage.cleaner.cleaner import Task
from support.compaction import COMPACTED, put
from support.disk import Hurried
from support.storage import Store


class FakePartition:
    """Counts the looks at its log."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.looks = 0
        self.out_of_service = None

    @property
    def log(self) -> Any:
        self.looks += 1
        # Nothing is cleaned of a log that was given up.
        return SimpleNamespace(
            config=SimpleNamespace(
                cleanup_policy=(self.policy,), max_message_decompressed_bytes=1000
            ),
            state=SimpleNamespace(truncations=0, unusable="removed"),
        )


def a_cleaner() -> Any:
    runtime: Any = SimpleNamespace(
        fs=None,
        clock=SimpleNamespace(time=lambda: 0.0),
        log=None,
        metrics=CollectorRegistry(),
        serial_executor=lambda _: ThreadPoolExecutor(1),
    )
    unused: Any = None
    return LogCleaner(runtime, unused, unused, unused)


async def test_a_look_costs_what_is_compacted() -> None:
    cleaner = a_cleaner()
    others, compacted = [FakePartition("delete") for _ in range(1000)], FakePartition("compact")
    for partition in (*others, compacted):
        cleaner.on_configured(partition)
    looks, before = [each.looks for each in others], compacted.looks
    assert not await cleaner.clean_next()
    assert [each.looks for each in others] == looks
    assert compacted.looks > before


async def test_what_is_compacted_no_more_or_not_held_is_not_looked_at() -> None:
    cleaner = a_cleaner()
    altered, dropped = FakePartition("compact"), FakePartition("compact")
    for partition in (altered, dropped):
        cleaner.on_configured(partition)
    altered.policy = "delete"
    cleaner.on_configured(altered)
    cleaner.forget(dropped)
    looks = altered.looks, dropped.looks
    assert not await cleaner.clean_next()
    assert (altered.looks, dropped.looks) == looks
    altered.policy = "compact"
    cleaner.on_configured(altered)
    await cleaner.clean_next()
    assert altered.looks > looks[0] + 1


class Replica:
    """Of a compacted log with sealed segments, all of it committed and durable."""

    out_of_service = None
    producers = SimpleNamespace(entries=list, last_markers=dict)

    def __init__(self, path: Path) -> None:
        self.store = Store(path, COMPACTED, fs=Hurried())
        self.log = self.store.log
        self.log.keep_producers(self.producers.entries)
        self.fill()
        self.store.flush()
        self.last_stable_offset = self.log.log_end_offset

    def fill(self) -> None:
        for number in range(20):
            put(self.store, (b"key", b"%d" % number))


def tasks_of(cleaner: Any) -> list[Task]:
    """What it would clean is noted, and left as it is."""
    tasks = list[Task]()

    def steps(task: Task) -> Iterator[None]:
        tasks.append(task)
        yield

    async def clean(cleaning: Any, _: object) -> bool:
        next(cleaning.steps)
        return True

    cleaner._cleaner, cleaner._clean = lambda: SimpleNamespace(steps=steps), clean
    return tasks


async def test_a_log_that_is_cut_while_another_is_judged_is_not_cleaned_as_it_was(
    tmp_path: Path,
) -> None:
    """What it holds behind the cut is not committed, and may be cut again (I-69)."""
    cleaner = a_cleaner()
    tasks = tasks_of(cleaner)
    cut, other = Replica(tmp_path / "1"), Replica(tmp_path / "2")

    async def in_own_thread(work: Callable[[], object]) -> object:
        if isinstance(work, partial) and work.args[0] == other.log.segments[:-1]:
            cut.log.truncate_to(1)
            cut.last_stable_offset = 1
            cut.fill()
        return work()

    cleaner._in_own_thread = in_own_thread
    for partition in (cut, other):
        cleaner.on_configured(partition)
    assert await cleaner.clean_next()
    assert cut.log.segments[0].end_offset > cut.last_stable_offset
    assert [task.segments for task in tasks] == [other.log.segments[:-1]]


async def test_a_segment_is_not_cleaned_before_the_files_of_its_end_are_flushed(
    tmp_path: Path,
) -> None:
    """A flush that began before it was sealed covers its batches: its index files and the snapshot
    of the producers wait for the next one, which finds them at the segment (I-182).
    """
    cleaner, replica = a_cleaner(), Replica(tmp_path / "1")
    tasks, log = tasks_of(cleaner), replica.log
    cleaner.on_configured(replica)
    ticket = log.flush_snapshot()
    ticket.run()
    log.roll()
    log.flushed(ticket)
    assert log.durable_offset == log.segments[-2].end_offset == replica.last_stable_offset
    assert await cleaner.clean_next()
    replica.store.flush()
    assert await cleaner.clean_next()
    assert [task.segments for task in tasks] == [log.segments[:-2], log.segments[:-1]]


async def test_a_log_is_not_cleaned_while_nobody_knows_who_has_appended_last(
    tmp_path: Path,
) -> None:
    """A fetch that is cancelled has cut it all the same, and what is known of producers is of the
    log before that: the last batch of one that is left would count as any other (I-79).
    """
    cleaner, replica = a_cleaner(), Replica(tmp_path / "1")
    tasks = tasks_of(cleaner)
    cleaner.on_configured(replica)
    replica.log.keep_producers(None)
    assert not await cleaner.clean_next()
    replica.log.keep_producers(replica.producers.entries)
    assert await cleaner.clean_next()
    assert len(tasks) == 1
