"""A topic deleted and made again on real processes, while a broker is dead (P-19, I-87)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import StrandlineError, TopicRecreated, UnknownTopicOrPartition
from strandline.types import TopicPartition
from support.cluster import eventually
from support.command import strandline

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_local.local_cluster import LocalCluster

BEFORE, AFTER = 20, 5
"""Records of the old topic, and of each partition of the new one."""


async def _make_anew(cluster: LocalCluster) -> None:
    """With a consumer at the end of the old topic, and a producer in the middle of it."""
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topics([NewTopic("t", 1, 3)])
        for _ in range(BEFORE):
            await producer.send_and_wait("t", b"old")
        await consumer.assign([TopicPartition("t", 0)])
        assert await _read(consumer, BEFORE) == [b"old"] * BEFORE
        cluster.kill(3)
        await _until_fenced(admin, 3)  # or it may get a replica of the new topic
        await admin.delete_topics(["t"])
        await admin.create_topics([NewTopic("t", 2, 2)])
        await _write_to_the_new_topic(producer)
        with pytest.raises((TopicRecreated, UnknownTopicOrPartition), match="was deleted"):
            await _read(consumer, 1)
        await consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        assert await _read(consumer, 2 * AFTER) == [b"new"] * 2 * AFTER


async def _until_fenced(admin: Admin, broker: int) -> None:
    async with asyncio.timeout(30):
        while True:
            cluster = await admin.describe_cluster()
            if {b.id: b.state for b in cluster.brokers}[broker] == "FENCED":
                return
            await asyncio.sleep(0.05)


async def _write_to_the_new_topic(producer: Producer) -> None:
    for partition in (0, 1):
        offsets: list[int] = []
        while len(offsets) < AFTER:
            try:
                sent = await producer.send_and_wait("t", b"new", partition=partition)
            except StrandlineError:
                await asyncio.sleep(0.1)  # it may still know the old topic
                continue
            offsets.append(sent.offset)
        assert offsets == list(range(AFTER)), "nothing of the old topic counts in the new one"


async def _read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(30):
        while len(values) < count:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                values += [record.value or b"" for record in records]
    return values


def test_what_a_dead_broker_held_of_a_topic_made_anew_is_a_stray(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    asyncio.run(asyncio.wait_for(_make_anew(cluster), 120))
    cluster.start(3)
    where = ("--dir", cluster.directory)
    whole = strandline("health", *where, "--wait", 30, "--format", "json").json
    assert whole["healthy"], whole
    note = eventually(
        lambda: strandline("health", *where, "--format", "json").json["notes"], "it is noted"
    )[0]
    assert note.startswith("broker 3 keeps replicas that no topic claims: `strandline strays ")
    root = note.split("`")[1].removeprefix("strandline strays ")
    (stray,) = strandline("strays", root, "--format", "json").json["strays"]
    assert (stray["topic"], stray["partition"]) == ("t", 0)
    assert stray["bytes"] > 0
    listed = strandline("strays", root)
    assert stray["path"] in listed.out
    assert stray["topic_id"] in listed.out
    assert "1 stray, " in listed.out
    assert "deleted" in strandline("strays", root, "--delete").out
    assert strandline("strays", root).out == "no strays\n"
    eventually(
        lambda: not strandline("health", *where, "--format", "json").json["notes"], "it is gone"
    )
    refused = strandline("strays", tmp_path)
    assert refused.status == 2
    assert "is no data directory of a broker" in refused.err
