"""The progress of a stream as the committed offsets of a group, for `strandline group lag`.

The checkpoint says where the stream stands; these offsets are never read. So commits are best
effort, between two micro-batches. A failure costs the stream one short wait and is retried later.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import grpc

from strandline_proto.errors import NONE, from_code
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2
from strandline_spark.cluster.cluster import stub_for
from strandline_spark.cluster.failed_calls import transport_text

if TYPE_CHECKING:
    from strandline_spark.cluster.cluster import Marks
    from strandline_spark.cluster.offsets import StreamOffset

_logger: Final = logging.getLogger(__name__)

CALL_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 30.0
"""Pause after a failure."""


class GroupProgress:
    """The group of one stream."""

    def __init__(self, bootstrap: tuple[str, ...], group_id: str) -> None:
        self._bootstrap = bootstrap
        self._group_id = group_id
        self._coordinator: str | None = None
        self._shown: StreamOffset | None = None
        self._not_before = 0.0

    def show(self, finished: StreamOffset, marks: Marks) -> None:
        """Commits the ends of a finished batch, unless they are committed already.

        Partitions that are gone or now belong to another topic are left out: the coordinator would
        refuse them.
        """
        ids = finished.topic_ids
        there = {
            tp: end
            for tp, end in finished.ends.items()
            if tp in marks and ids.get(tp.topic, marks[tp].topic_id) == marks[tp].topic_id
        }
        offset = replace(finished, ends=there)
        if offset == self._shown or time.monotonic() < self._not_before:
            return
        try:
            address = self._coordinator or self._find()
            failure = self._commit(address, offset)
        except grpc.RpcError as error:
            failure = transport_text(error)
        if failure is None:
            self._coordinator, self._shown = address, offset
            return
        self._coordinator = None
        self._not_before = time.monotonic() + AGAIN_SECONDS
        _logger.warning(
            "group %s does not show the progress of this query (%s); trying again in %.0f s",
            self._group_id,
            failure,
            AGAIN_SECONDS,
        )

    def _find(self) -> str:
        """Returns the coordinator's address, or that of any broker if it is unknown."""
        request = groups_pb2.FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group_id])
        for address in self._bootstrap:
            try:
                answer = stub_for(address).FindCoordinator(request, timeout=CALL_SECONDS)
            except grpc.RpcError:
                continue
            for one in answer.coordinators:
                if one.error_code == NONE:
                    return f"{one.host}:{one.port}"
        return self._bootstrap[0]

    def _commit(self, address: str, offset: StreamOffset) -> str | None:
        """Returns the reason of the failure; None on success."""
        topics: dict[str, committed_offsets_pb2.OffsetCommitTopic] = {}
        for tp, end in offset.ends.items():
            topic = topics.setdefault(
                tp.topic,
                committed_offsets_pb2.OffsetCommitTopic(
                    topic_id=offset.topic_ids.get(tp.topic, b""),
                    name="" if tp.topic in offset.topic_ids else tp.topic,
                ),
            )
            topic.partitions.add(
                partition=tp.partition,
                committed_offset=end,
                committed_leader_epoch=offset.epochs.get(tp, -1),
            )
        answer = stub_for(address).OffsetCommit(
            committed_offsets_pb2.OffsetCommitRequest(
                group_id=self._group_id,
                generation_id_or_member_epoch=-1,
                topics=topics.values(),
            ),
            timeout=CALL_SECONDS,
        )
        codes = [answer.error_code]
        codes += [p.error_code for topic in answer.topics for p in topic.partitions]
        failed = next((code for code in codes if code != NONE), None)
        return None if failed is None else type(from_code(failed)).__name__
