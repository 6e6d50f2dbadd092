"""A cluster of the last release becomes one of this build under load, and goes back: the promise of
docs/guide/upgrades.md, with the commands that the page names. What does not fit is refused.

The release is its own wheel in an environment of its own; the libraries there are those that this
build is tested with.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from strandline import Admin, Consumer, NewTopic, Producer, TopicPartition
from strandline.errors import NotController
from strandline_local.errors import ClusterError
from strandline_local.local_cluster import LocalCluster
from strandline_runtime.build_id import build_id
from support.cluster import MakeCluster, eventually
from support.command import strandline
from support.installed_wheel import run
from support.older_build import (
    NoHistory,
    build_of,
    installed_release,
    last_release,
    materialise,
)
from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from release import Release
    from strandline_local.local_cluster import ProcessId

pytestmark = pytest.mark.integration

TOPIC: Final = "orders"
PARTITIONS: Final = 3
BROKERS: Final = (1, 2, 3)
STEP_RECORDS: Final = 20
"""Acknowledged and read between two restarts, at least."""
PAUSE_S: Final = 0.1
"""Between two records of a partition: the servers that are restarted need the processor."""
PATIENCE_S: Final = 60.0

Place = tuple[int, int]
"""Partition and offset."""


@pytest.fixture(scope="module")
def older() -> Release:
    try:
        return last_release()
    except NoHistory as why:
        pytest.skip(str(why))


class Machine:
    """A directory of a local cluster, and commands about it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def does(self, command: Path | None, *words: object) -> None:
        """Runs one command of a build, as at a shell; without a path, one of this build."""
        folder = str(self.directory / "cluster")
        if command is not None:
            line = [str(command), *map(str, words)]
            await asyncio.to_thread(run, line, self.directory, STRANDLINE_DIR=folder)
            return
        environ = {"STRANDLINE_DIR": folder}
        done = await asyncio.to_thread(strandline, *words, environ=environ, cwd=self.directory)
        assert done.status == 0, done

    @property
    def cluster(self) -> LocalCluster:
        return LocalCluster.open(self.directory / "cluster")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        if (tmp_path / "cluster").exists():
            made.cluster.kill_all()


class Load:
    """A producer, and a member of a group, that run as long as the block does."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.read: list[tuple[Place, bytes | None]] = []
        self._bootstrap = bootstrap
        self._done = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            senders = [tasks.create_task(self._send(p)) for p in range(PARTITIONS)]
            member = tasks.create_task(self._consume())
            yield
            self._done.set()
            await asyncio.gather(*senders)
            await until(lambda: len(self.read) >= len(self.acknowledged))
            member.cancel()

    async def goes_on(self) -> None:
        """Both have got on since the call."""
        sent, read = len(self.acknowledged) + STEP_RECORDS, len(self.read) + STEP_RECORDS
        await until(lambda: len(self.acknowledged) >= sent and len(self.read) >= read)

    async def _send(self, partition: int) -> None:
        async with Producer(self._bootstrap) as producer:
            while not self._done.is_set():
                value = b"%d %d" % (partition, len(self.acknowledged))
                sent = await producer.send_and_wait(TOPIC, value, partition=partition)
                assert (partition, sent.offset) not in self.acknowledged
                self.acknowledged[partition, sent.offset] = value
                await asyncio.sleep(PAUSE_S)

    async def _consume(self) -> None:
        async with Consumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id="shop",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as member:
            while True:
                for records in (await member.getmany(timeout_ms=500)).values():
                    self.read += [((r.partition, r.offset), r.value) for r in records]
                await member.commit()


async def test_a_cluster_of_the_last_release_becomes_this_build_under_load_and_goes_back(
    older: Release, machine: Machine
) -> None:
    command = await asyncio.to_thread(installed_release, older, machine.directory / "release")
    # A snapshot every few decisions: each build begins from those of the other.
    config = "metadata.log.max.record.bytes.between.snapshots=2000"
    start = ("up", "--detach", "--brokers", len(BROKERS), "--port", 0, "--config", config)
    await machine.does(command, *start)
    bootstrap = machine.cluster.bootstrap
    await topic(bootstrap)
    assert await builds(bootstrap) == {build_of(older)}
    load = Load(bootstrap)
    async with load.running():
        await load.goes_on()
        # The controller first: it knows what brokers of before it say.
        for process_id in ("controller", *BROKERS):
            await roll(machine, None, process_id)
            await load.goes_on()
        assert await builds(bootstrap) == {build_id()}
        for process_id in (*BROKERS, "controller"):
            await roll(machine, command, process_id)
            await load.goes_on()
        assert await builds(bootstrap) == {build_of(older)}
    assert list(machine.cluster.data_directory("controller").glob("*/*.checkpoint"))
    there = await everything(bootstrap)
    assert there == load.acknowledged, "acknowledged records are there once, in their places"
    assert dict(load.read) == load.acknowledged
    assert max(Counter(place for place, _ in load.read).values()) == 1, "no commit went back"
    for partition in range(PARTITIONS):
        offsets = [offset for (p, offset), _ in load.read if p == partition]
        assert offsets == sorted(offsets)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


async def roll(machine: Machine, command: Path | None, process_id: ProcessId) -> None:
    """As docs/guide/upgrades.md says: one process, and the next when all replicas are in sync."""
    await machine.does(command, "restart", process_id)
    await machine.does(command, "health", "--wait", PATIENCE_S)


async def topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        config = {"min.insync.replicas": "2"}
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])


async def builds(bootstrap: str) -> set[str]:
    async with Admin(bootstrap) as admin, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                found = await admin.describe_cluster()
                break
            except NotController:
                await asyncio.sleep(0.1)  # a broker has not found the new one yet
    return {found.controller.build, *(broker.build for broker in found.brokers)}


async def everything(bootstrap: str) -> dict[Place, bytes]:
    found: dict[Place, bytes] = {}
    reader = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with reader, asyncio.timeout(PATIENCE_S):
        partitions = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        await reader.assign(partitions)
        ends = await reader.end_offsets(partitions)
        while len(found) < sum(ends.values()):
            record = await reader.getone()
            found[record.partition, record.offset] = record.value or b""
    return found


def test_the_wire_is_only_ever_added_to(older: Release, tmp_path: Path) -> None:
    sources = materialise(older.commit, tmp_path / "sources")
    done = subprocess.run(
        [f"{Path(sys.executable).parent}/buf", "breaking", str(ROOT), "--against", str(sources)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_servers_of_a_build_that_does_not_fit_are_refused_by_name(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster()
    monkeypatch.setenv("PYTHONPATH", str(of_levels(tmp_path, oldest=5, newest=6)))
    cluster.stop(3)
    with pytest.raises(ClusterError) as refused:
        cluster.start(3)
    said = str(refused.value)
    assert f"refuses this broker: broker 3 runs build {build_id()} and speaks protocol" in said
    assert "levels 5 to 6; this controller runs build" in said.replace("protocol ", "")
    cluster.stop("controller")
    with pytest.raises(
        ClusterError, match=r"they share no level\. Upgrade broker 1 to a build that"
    ):
        cluster.start("controller")
    monkeypatch.delenv("PYTHONPATH")
    cluster.start("controller")
    cluster.start(3)
    eventually(lambda: len(cluster.alive()) == 4, "nothing was harmed")


def of_levels(folder: Path, *, oldest: int, newest: int) -> Path:
    """A source root with the servers of this build, which speak other protocol levels."""
    made = folder / "broker"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "broker", made, ignore=ignore)
    file = made / "strandline_broker" / "core" / "compatibility.py"
    text = file.read_text("utf-8")
    ours = "Levels(oldest=0, newest=1)"
    assert text.count(ours) == 1
    file.write_text(text.replace(ours, f"Levels(oldest={oldest}, newest={newest})"), "utf-8")
    return made
