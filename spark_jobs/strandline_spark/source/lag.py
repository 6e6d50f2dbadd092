"""The lag of a streaming query behind its topics, in offsets and in seconds.

Offsets come from Spark's report of a micro-batch: its end, and the ends of the logs when it was
planned. Seconds are the age of the first batch of records not yet read, by its own timestamps; one
small FetchRange for each partition gets it. A partition whose records are all read has a lag of 0
in both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto.errors import NONE
from strandline_proto.v1 import fetch_pb2
from strandline_spark.cluster.cluster import Cluster, stub_for
from strandline_spark.cluster.offsets import (
    LINEAGE,
    Offsets,
    StreamOffset,
    from_json,
    parse_json,
    stream_from_json,
)
from strandline_spark.errors import StrandlineSparkError

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_spark.cluster.cluster import Leader
    from strandline_spark.cluster.offsets import TopicPartition

BEHIND: Final = "@behind"
"""The key of the lag beside the latest offsets; no topic can have this name."""
LOOKED_AT_MAX: Final = 100
"""Number of partitions whose first unread record is looked up, those with the greatest lag first.
"""
ASKING_SECONDS: Final = 2.0
"""Limit for all questions about one micro-batch."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, average and greatest value over the partitions of a query."""

    least: float
    average: float
    most: float

    @classmethod
    def of(cls, values: Collection[float]) -> Spread | None:
        """Returns the spread; None without values."""
        if not values:
            return None
        return cls(min(values), sum(values) / len(values), max(values))


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one source of a query after a micro-batch."""

    query: str
    """Name of the query, or its id if it has none."""
    batch_id: int
    topics: tuple[str, ...]
    offsets: Spread
    seconds: Spread | None
    """The lag in seconds; None if no broker answered."""

    def __str__(self) -> str:
        shown = ", ".join(self.topics[:3]) + (", …" if len(self.topics) > 3 else "")
        told = (
            f"query {self.query}, batch {self.batch_id}, {shown}: {self.offsets.least:,.0f} to"
            f" {self.offsets.most:,.0f} offsets behind (average {self.offsets.average:,.1f})"
        )
        if self.seconds is None:
            return f"{told}, in seconds unknown"
        one = self.seconds
        return f"{told}, {one.least:,.1f} to {one.most:,.1f} s (average {one.average:,.1f} s)"


def offsets_behind(ends: Offsets, latest: Offsets) -> Offsets:
    """Returns the lag in offsets of each partition that exists."""
    return {tp: max(0, end - ends.get(tp, 0)) for tp, end in latest.items()}


def with_behind(latest: dict[str, Any], behind: Offsets) -> dict[str, Any]:
    """Returns the latest offsets as Spark reports them, with the metrics of its Kafka source.

    A Python source cannot report metrics of its own.
    """
    spread = Spread.of(behind.values())
    if spread is None:
        return latest
    return latest | {
        BEHIND: {
            "minOffsetsBehindLatest": int(spread.least),
            "avgOffsetsBehindLatest": round(spread.average, 1),
            "maxOffsetsBehindLatest": int(spread.most),
        }
    }


def reported(end: str | None, latest: str | None) -> tuple[StreamOffset, Offsets] | None:
    """Returns the end offset of a micro-batch and the latest offsets, from Spark's report of a
    source. Returns None if the source is not ours, or nothing was planned.
    """
    try:
        ended, logs = parse_json(end or "null"), parse_json(latest or "null")
        if not isinstance(ended, dict) or LINEAGE not in ended or not isinstance(logs, dict):
            return None
        logs.pop(BEHIND, None)
        return stream_from_json(ended), from_json(logs)
    except ValueError:
        return None


def seconds_behind(
    bootstrap: tuple[str, ...], ended: StreamOffset, latest: Offsets, now: float
) -> Spread | None:
    """Returns the age of unread records at `now` (seconds since 1970); None without an answer."""
    behind = offsets_behind(ended.ends, latest)
    found = {tp: 0.0 for tp, offsets in behind.items() if offsets == 0}
    most = sorted(behind.keys() - found, key=lambda tp: -behind[tp])[:LOOKED_AT_MAX]
    if most:
        deadline = time.monotonic() + ASKING_SECONDS
        since = _unread_since(bootstrap, ended, {tp: latest[tp] for tp in most}, deadline)
        if not since:
            return None
        found |= {tp: max(0.0, now - at_ms / 1000) for tp, at_ms in since.items()}
    return Spread.of(found.values())


def _unread_since(
    bootstrap: tuple[str, ...], ended: StreamOffset, latest: Offsets, deadline: float
) -> Offsets:
    """Returns the timestamp in milliseconds of the first unread batch, for each partition that
    could be asked in time.
    """
    try:
        leaders, _ = Cluster(bootstrap, ASKING_SECONDS).existing({tp.topic for tp in latest})
    except StrandlineSparkError:
        return {}
    since: Offsets = {}
    for tp, stop in latest.items():
        leader = leaders.get(tp)
        left = deadline - time.monotonic()
        if left <= 0:
            break
        if leader is None or leader.topic_id != ended.topic_ids.get(tp.topic) or not leader.address:
            continue
        at_ms = _first_timestamp(leader, tp, ended.ends.get(tp, 0), stop, left)
        if at_ms is not None:
            since[tp] = at_ms
    return since


def _first_timestamp(
    leader: Leader, tp: TopicPartition, start: int, stop: int, seconds: float
) -> int | None:
    """Returns the timestamp; None if the leader does not answer."""
    # A planner's process loads this module for its first batch, and never asks for a timestamp.
    from strandline_proto.batch import read_header

    call = stub_for(leader.address).FetchRange(
        fetch_pb2.FetchRangeRequest(
            topic_id=leader.topic_id,
            partition=tp.partition,
            current_leader_epoch=leader.epoch,
            start_offset=start,
            stop_offset=stop,
            max_message_bytes=1,
        ),
        timeout=seconds,
    )
    try:
        message = next(iter(call), None)
    except grpc.RpcError:
        return None
    finally:
        call.cancel()
    if message is None or message.error_code != NONE or not message.records:
        return None
    header = read_header(message.records)
    own = not header.is_log_append_time and not header.has_delete_horizon
    return header.base_timestamp if own else header.max_timestamp
