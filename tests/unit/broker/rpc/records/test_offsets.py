"""What a lookup by time answers where its log cannot be read."""

from __future__ import annotations

import errno
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.disks.log_dirs import LogDirs
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.offsets import OffsetsService
from strandline_broker.rpc.records.offsets import OffsetsRpc
from strandline_proto.batch import build_batch
from strandline_proto.errors import NONE, FencedLeaderEpoch, KafkaStorageError
from strandline_proto.v1 import fetch_pb2
from support.replica_nodes import TOPIC_ID, Node, decide, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def led(tmp_path: Path) -> AsyncIterator[Node]:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1), node)
        batch = build_batch([(None, b"v")], timestamp_ms=1)
        check_leader(node.partition, 0).appends.append(batch, acks=1, on_done=lambda _: None)
        yield node


async def by_time(node: Node) -> int:
    """The error code of the answer."""
    request = fetch_pb2.ListOffsetsRequest(replica_id=-1)
    asked = request.topics.add(topic_id=TOPIC_ID).partitions.add(partition=0)
    asked.timestamp, asked.current_leader_epoch = 1, 0
    answer = await OffsetsRpc(OffsetsService(node.replicas), node.metadata).ListOffsets(
        request, None
    )
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
async def test_a_log_that_cannot_be_read_is_refused_as_a_fetch_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The request's other partitions have their answers. What does not pass takes the replica out
    of service, so that another may lead (P-24).
    """

    async def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    async with led(tmp_path) as node:
        assert await by_time(node) == NONE
        monkeypatch.setattr(LogDirs, "in_turns", failing)
        assert await by_time(node) == KafkaStorageError.code
        assert (node.partition.out_of_service is None) == (number == errno.EMFILE)


async def test_a_file_that_a_later_role_has_taken_away_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that begins anew has no file for a moment, which a lookup of before may see."""
    async with led(tmp_path) as node:

        async def late(*_: object) -> None:
            await decide(state(2, epoch=1, isr=(2,), replicas=(1, 2), min_insync=1), node)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

        monkeypatch.setattr(LogDirs, "in_turns", late)
        assert await by_time(node) == FencedLeaderEpoch.code
        assert node.partition.out_of_service is None
