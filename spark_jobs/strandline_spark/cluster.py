"""What Spark's side asks of the brokers, over the plain synchronous stubs: topics, ends of logs,
ends of epochs.

Channels belong to a process: they are made when first needed, kept for its life and keyed by
process id, because Spark forks its workers. Objects of this module hold addresses and epochs only,
so they can be pickled.

An answer is believed only from a leader whose epoch is not below one that was seen before (P-82): a
deposed leader may serve an older prefix, and to a reader that resumes that would look like lost
records.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc

from strandline_proto.errors import (
    NONE,
    OffsetNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
    from_code,
)
from strandline_proto.v1 import fetch_pb2, metadata_pb2, services_pb2_grpc
from strandline_runtime.real import CHANNEL_OPTIONS
from strandline_spark.errors import ClusterUnreachable, UnknownTopic
from strandline_spark.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

CALL_SECONDS: Final = 5.0
"""Deadline of one unary call."""
PATIENCE_SECONDS: Final = 30.0
"""How long an election or a restart is waited out before an error is given."""
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

_channels: dict[tuple[int, str], grpc.Channel] = {}


def stub_for(address: str) -> services_pb2_grpc.BrokerServiceStub:
    """A stub on this process's channel to `address`."""
    key = (os.getpid(), address)
    channel = _channels.get(key)
    if channel is None:
        channel = _channels[key] = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return services_pb2_grpc.BrokerServiceStub(channel)


def close_channels() -> None:
    """Ends this process's channels, for a process that will start others or is done with the
    cluster.
    """
    mine = [key for key in _channels if key[0] == os.getpid()]
    for key in mine:
        _channels.pop(key).close()


def pauses(patience: float) -> Iterator[float]:
    """Yields the seconds left, with a growing pause between; ends when the patience does."""
    deadline = time.monotonic() + patience
    pause = BACKOFF_SECONDS_MIN
    left = patience
    while left > 0:
        yield left
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(2 * pause, BACKOFF_SECONDS_MAX)
        left = deadline - time.monotonic()


@dataclass(frozen=True, slots=True)
class Leader:
    """One partition as the cluster describes it."""

    topic_id: bytes
    address: str
    """host:port of the leader; empty while there is none."""
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """An offset, and the leader epoch in which the broker gave it."""

    offset: int
    epoch: int


Leaders = dict[TopicPartition, Leader]


class Cluster:
    """The brokers behind a bootstrap list."""

    def __init__(self, bootstrap: Iterable[str]) -> None:
        self.bootstrap = tuple(bootstrap)
        self._known: tuple[str, ...] = ()
        self._epochs: dict[tuple[bytes, int], int] = {}

    def remember_epoch(self, topic_id: bytes, partition: int, epoch: int) -> None:
        """From now on a leader of an earlier epoch is not believed."""
        key = (topic_id, partition)
        self._epochs[key] = max(epoch, self._epochs.get(key, -1))

    def leaders(self, topics: Iterable[str], patience: float | None = None) -> Leaders:
        """Every partition of the topics. Raises UnknownTopic or, past the patience,
        ClusterUnreachable.

        A topic that was just created is not known to every broker at once, so "unknown" is asked of
        each of them.
        """
        wanted = tuple(topics)
        patience = PATIENCE_SECONDS if patience is None else patience
        why = "no answer"
        for _ in pauses(patience):
            unknown: set[str] = set()
            for address in (*self.bootstrap, *(a for a in self._known if a not in self.bootstrap)):
                answer = self._metadata(address, wanted)
                if isinstance(answer, str):
                    why = answer
                    continue
                absent = {
                    t.name for t in answer.topics if t.error_code == UnknownTopicOrPartition.code
                }
                if absent:
                    unknown = absent
                    continue
                found = self._leaders_in(answer)
                if found is not None:
                    return found
                why = f"{address} knows an older leader than was seen before"
            if unknown:
                raise UnknownTopic(
                    f"topic {', '.join(sorted(unknown))} does not exist; create it with "
                    "`strandline topic create`"
                )
        raise ClusterUnreachable(
            f"no broker of {', '.join(self.bootstrap)} answered within {patience:.0f} s ({why});"
            " is the cluster up, and are its advertised addresses reachable from here?"
        )

    def _metadata(
        self, address: str, topics: tuple[str, ...]
    ) -> metadata_pb2.MetadataResponse | str:
        request = metadata_pb2.MetadataRequest(
            only_named=True, topics=[metadata_pb2.TopicRef(name=name) for name in topics]
        )
        try:
            answer = stub_for(address).Metadata(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            return f"{address}: {transport_text(error)}"
        self._known = tuple(f"{b.host}:{b.port}" for b in answer.brokers)
        return answer

    def _leaders_in(self, answer: metadata_pb2.MetadataResponse) -> Leaders | None:
        """The partitions described, or None if one of them is described by a broker that lags
        behind what was seen.
        """
        addresses = {b.node_id: f"{b.host}:{b.port}" for b in answer.brokers}
        out: Leaders = {}
        for topic in answer.topics:
            if topic.error_code != NONE:
                raise from_code(topic.error_code)
            for p in topic.partitions:
                if p.leader_epoch < self._epochs.get((topic.topic_id, p.index), -1):
                    return None
                self.remember_epoch(topic.topic_id, p.index, p.leader_epoch)
                out[TopicPartition(topic.name, p.index)] = Leader(
                    topic.topic_id,
                    addresses.get(p.leader, ""),
                    p.leader_epoch,
                    tuple(p.isr),
                    tuple(p.replicas),
                )
        return out

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, End]:
        """ListOffsets: for each partition the offset that a timestamp (-1 latest, -2 earliest)
        stands for.

        "Latest" is the high watermark, which a new leader gives only once it cannot go back (I-11).
        """

        def ask(
            address: str, part: dict[TopicPartition, Leader]
        ) -> Iterator[tuple[TopicPartition, int, int]]:
            topics: dict[bytes, fetch_pb2.ListOffsetsTopic] = {}
            for tp, leader in part.items():
                topic = topics.setdefault(
                    leader.topic_id, fetch_pb2.ListOffsetsTopic(topic_id=leader.topic_id)
                )
                topic.partitions.add(
                    partition=tp.partition, current_leader_epoch=leader.epoch, timestamp=wanted[tp]
                )
            answer = stub_for(address).ListOffsets(
                fetch_pb2.ListOffsetsRequest(replica_id=-1, topics=topics.values()),
                timeout=CALL_SECONDS,
            )
            names = {(leader.topic_id, tp.partition): tp for tp, leader in part.items()}
            for result_topic in answer.topics:
                for p in result_topic.partitions:
                    yield names[(result_topic.topic_id, p.partition)], p.error_code, p.offset

        found = self._of_leaders(wanted, ask)
        return {tp: End(offset, leader.epoch) for tp, (offset, leader) in found.items()}

    def epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, End]:
        """OffsetsForLeaderEpoch: where the leader's log leaves the given epoch; offset -1 if it
        never held it.
        """

        def ask(
            address: str, part: dict[TopicPartition, Leader]
        ) -> Iterator[tuple[TopicPartition, int, int]]:
            topics: dict[bytes, fetch_pb2.OffsetsForLeaderEpochTopic] = {}
            for tp, leader in part.items():
                topic = topics.setdefault(
                    leader.topic_id, fetch_pb2.OffsetsForLeaderEpochTopic(topic_id=leader.topic_id)
                )
                topic.partitions.add(
                    partition=tp.partition,
                    current_leader_epoch=leader.epoch,
                    leader_epoch=wanted[tp],
                )
            answer = stub_for(address).OffsetsForLeaderEpoch(
                fetch_pb2.OffsetsForLeaderEpochRequest(replica_id=-1, topics=topics.values()),
                timeout=CALL_SECONDS,
            )
            names = {(leader.topic_id, tp.partition): tp for tp, leader in part.items()}
            for result_topic in answer.topics:
                for p in result_topic.partitions:
                    yield names[(result_topic.topic_id, p.partition)], p.error_code, p.end_offset

        found = self._of_leaders(wanted, ask)
        return {tp: End(offset, leader.epoch) for tp, (offset, leader) in found.items()}

    def _of_leaders(
        self,
        wanted: Iterable[TopicPartition],
        ask: Callable[
            [str, dict[TopicPartition, Leader]], Iterator[tuple[TopicPartition, int, int]]
        ],
    ) -> dict[TopicPartition, tuple[int, Leader]]:
        """Asks each partition's leader, and again after elections, until every partition has an
        answer.
        """
        pending = set(wanted)
        done: dict[TopicPartition, tuple[int, Leader]] = {}
        why: dict[TopicPartition, str] = {}
        for left in pauses(PATIENCE_SECONDS) if pending else ():
            leaders = self.leaders(sorted({tp.topic for tp in pending}), left)
            by_address = _by_address(pending, leaders, why)
            for address, part in by_address.items():
                try:
                    for tp, code, offset in ask(address, part):
                        if code == NONE:
                            done[tp] = (offset, part[tp])
                            pending.discard(tp)
                        else:
                            why[tp] = _retriable_text(tp, code)
                except grpc.RpcError as error:
                    why |= dict.fromkeys(part, f"{address}: {transport_text(error)}")
            if not pending:
                break
        if pending:
            worst = min(pending)
            raise ClusterUnreachable(
                f"{worst} gave no offset within {PATIENCE_SECONDS:.0f} s: "
                f"{why.get(worst, 'no answer')}"
            )
        return done


def _by_address(
    pending: Iterable[TopicPartition], leaders: Leaders, why: dict[TopicPartition, str]
) -> dict[str, Leaders]:
    """The pending partitions by leader's address; `why` explains what has no leader."""
    out: dict[str, Leaders] = {}
    for tp in sorted(pending):
        if tp not in leaders:
            raise UnknownTopic(f"topic {tp.topic} has no partition {tp.partition}")
        if leaders[tp].address:
            out.setdefault(leaders[tp].address, {})[tp] = leaders[tp]
        else:
            why[tp] = "it has no leader"
    return out


def _retriable_text(tp: TopicPartition, code: int) -> str:
    """Why to ask again. Raises what asking again cannot cure."""
    error: WireError = from_code(code)
    if not error.retriable and not isinstance(error, OffsetNotAvailable | UnknownTopicId):
        raise error
    return f"{type(error).__name__}: {error} ({tp})"


def transport_text(error: grpc.RpcError) -> str:
    """A transport failure in a few words."""
    code = error.code() if isinstance(error, grpc.Call) else None
    return code.name if code is not None else "no connection"
