"""A static member that was killed and started again joins once its old session is over."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import OperationTimedOut, UnreleasedInstanceId

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster
    from support.cluster import MakeCluster

WAIT_S = 60.0
SESSION = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 1000,
}
MEMBER = """
import asyncio, sys
from strandline import Consumer
async def main():
    async with Consumer("t", bootstrap_servers=sys.argv[1], group_id="g", group_instance_id="i",
                        auto_offset_reset="earliest") as consumer:
        await consumer.getone()
        print("joined", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def member(cluster: LocalCluster) -> Consumer:
    return Consumer(
        "t",
        bootstrap_servers=cluster.bootstrap,
        group_id="g",
        group_instance_id="i",
        auto_offset_reset="earliest",
    )


@pytest.fixture
def small(make_cluster: MakeCluster) -> LocalCluster:
    return make_cluster(brokers=1, broker_config=SESSION)


async def start(cluster: LocalCluster) -> asyncio.subprocess.Process:
    """Another process that is the static member."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("t", b"v")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MEMBER, cluster.bootstrap, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        assert await process.stdout.readline() == b"joined\n"
    return process


async def test_who_was_killed_comes_back_within_its_session(small: LocalCluster) -> None:
    process = await start(small)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with asyncio.timeout(WAIT_S), member(small) as consumer:
        assert (await consumer.getone()).value == b"v"
        assert len(consumer.assignment()) == 1


async def test_who_waits_says_for_whom_and_is_refused_while_that_lives(small: LocalCluster) -> None:
    process = await start(small)
    try:
        async with asyncio.timeout(WAIT_S), member(small) as consumer:
            with pytest.raises(OperationTimedOut, match=r"instance 'i'.*stop that process"):
                await consumer.wait_assigned(2000)
            with pytest.raises(UnreleasedInstanceId):
                await consumer.getone()
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def test_who_is_released_meanwhile_joins_at_once(small: LocalCluster) -> None:
    process = await start(small)
    async with asyncio.timeout(WAIT_S), member(small) as consumer:
        assert await consumer.getmany(timeout_ms=1500) == {}
        process.send_signal(signal.SIGINT)  # it stops, and keeps its place for the next
        await process.wait()
        await consumer.wait_assigned(30_000)
