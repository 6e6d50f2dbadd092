"""The requests of Spark's side to the brokers, over the plain synchronous stubs: topics, ends of
logs, ends of epochs.

Channels belong to a process. They are made when first needed, kept for its life and keyed by
process id, because Spark forks its workers. Objects of this module hold only addresses and epochs,
so they can be pickled.

An answer counts only if its leader's epoch is not below one that was seen before (P-82). A deposed
leader may serve an older prefix. To a reader that resumes, that would look like lost records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import grpc

from strandline_proto.errors import NONE, OffsetNotAvailable, UnknownTopicOrPartition, from_code
from strandline_proto.v1 import fetch_pb2, metadata_pb2, services_pb2_grpc
from strandline_runtime.real import CHANNEL_OPTIONS
from strandline_spark.cluster.failed_calls import retriable_text, transport_text
from strandline_spark.cluster.offsets import EARLIEST, LATEST, TopicPartition
from strandline_spark.cluster.range_streams import close_streams
from strandline_spark.errors import ClusterUnreachable, UnknownTopic

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping


CALL_SECONDS: Final = 5.0
"""Deadline of one unary call."""
PATIENCE_SECONDS: Final = 30.0
"""How long calls wait for an election or a restart before they raise an error."""
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

_channels: dict[tuple[int, str], grpc.Channel] = {}


def stub_for(address: str) -> services_pb2_grpc.BrokerServiceStub:
    """Returns a stub on this process's channel to `address`."""
    return services_pb2_grpc.BrokerServiceStub(channel_to(address))


def channel_to(address: str) -> grpc.Channel:
    """Returns this process's channel to `address`."""
    key = (os.getpid(), address)
    channel = _channels.get(key)
    if channel is None:
        channel = _channels[key] = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return channel


def close_channels() -> None:
    """Closes this process's channels, for a process that will start others or no longer needs the
    cluster.
    """
    mine = [key for key in _channels if key[0] == os.getpid()]
    for key in mine:
        _channels.pop(key).close()
    close_streams()


def pauses(patience: float) -> Iterator[float]:
    """Yields the seconds left, with a growing pause between; ends when `patience` is used up."""
    deadline = time.monotonic() + patience
    pause = BACKOFF_SECONDS_MIN
    left = patience
    while left > 0:
        yield left
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(2 * pause, BACKOFF_SECONDS_MAX)
        left = deadline - time.monotonic()


class Leader(NamedTuple):
    """One partition as the cluster describes it."""

    topic_id: bytes
    address: str
    """`host:port` of the leader; empty while there is none."""
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    internal: bool = False
    """True for a topic that the cluster keeps for itself."""
    range_address: str = ""
    """`host:port` where the leader serves ranges in plain frames; empty without one."""


class Mark(NamedTuple):
    """Log start and high watermark of a partition, from the leader of an epoch."""

    leader: Leader
    log_start: int
    high_watermark: int

    @property
    def topic_id(self) -> bytes:
        return self.leader.topic_id

    @property
    def epoch(self) -> int:
        return self.leader.epoch


Leaders = dict[TopicPartition, Leader]
Marks = dict[TopicPartition, Mark]
_Answer = TypeVar("_Answer")
_Answers = Callable[[], "Iterator[tuple[TopicPartition, int, _Answer]]"]
"""A function that waits for a call in progress and yields partition, error code and answer. It
raises RpcError.
"""


class TopicChanged(UnknownTopic):
    """A topic now has another id than the one that the caller saw a moment before."""


def unknown(topics: Iterable[str]) -> UnknownTopic:
    """Returns the error for requested topics that do not exist."""
    return UnknownTopic(
        f"topic {', '.join(sorted(topics))} does not exist; create it with "
        "`strandline topic create`"
    )


class Cluster:
    """The brokers behind a bootstrap list."""

    def __init__(
        self,
        bootstrap: Iterable[str],
        patience: float | None = None,
        *,
        read_committed: bool = False,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self._isolation_level = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._known: tuple[str, ...] = ()
        self._epochs: dict[tuple[bytes, int], int] = {}
        self._raised = 0
        self._read: tuple[metadata_pb2.MetadataResponse, int, Leaders] | None = None
        """The last Metadata answer, the count of raised epochs at that time, and the result made of
        it. Most triggers get the same answer again.
        """
        self._asked: dict[str, ListOffsetsQuestion] = {}
        """The last question of `marks` to each broker, reused for the same reason."""

    def remember_epoch(self, topic_id: bytes, partition: int, epoch: int) -> None:
        """Ignores leaders of an earlier epoch from now on."""
        key = (topic_id, partition)
        if epoch > self._epochs.get(key, -1):
            self._epochs[key] = epoch
            self._raised += 1

    def leaders(self, topics: Iterable[str], patience: float | None = None) -> Leaders:
        """Returns every partition of the topics. Raises UnknownTopic or, past the patience,
        ClusterUnreachable.
        """
        found, absent = self.existing(topics, patience)
        if absent:
            raise unknown(absent)
        return found

    def existing(
        self, topics: Iterable[str], patience: float | None = None
    ) -> tuple[Leaders, set[str]]:
        """Returns the partitions of the topics that exist, and the names of the others.

        Not every broker knows a new topic at once. So a topic is unknown only if each of them says
        so.
        """
        wanted = tuple(topics)
        return self._described(wanted, set(wanted), patience)

    def matching(self, pattern: re.Pattern[str], known: Iterable[str]) -> tuple[Leaders, set[str]]:
        """Returns the partitions of the topics whose whole name matches (internal ones never do),
        and the missing ones of `known`.

        A broker that lags may not report a topic, so each is asked.
        """
        found, _ = self._described(None, set(), None)
        found = {
            tp: one for tp, one in found.items() if pattern.fullmatch(tp.topic) and not one.internal
        }
        missing = {topic for topic in known if pattern.fullmatch(topic)}
        missing -= {tp.topic for tp in found}
        if not missing:
            return found, missing
        more, absent = self.existing(sorted(missing))
        return found | more, absent

    def _described(
        self, wanted: tuple[str, ...] | None, needed: set[str], patience: float | None
    ) -> tuple[Leaders, set[str]]:
        """Returns Metadata's answer about the wanted topics (None: all of them), and the needed
        topics that are missing.
        """
        patience = self._patience if patience is None else patience
        why: dict[str, str] = {}
        for _ in pauses(patience):
            partial: tuple[Leaders, set[str]] | None = None
            for address in (*self.bootstrap, *(a for a in self._known if a not in self.bootstrap)):
                answer = self._metadata(address, wanted)
                if isinstance(answer, str):
                    why[address] = answer
                    continue
                found = self._leaders_in(answer)
                if found is None:
                    why[address] = f"{address} knows an older leader than was seen before"
                    continue
                absent = needed - {tp.topic for tp in found}
                if not absent:
                    return found, absent
                if partial is None or len(absent) < len(partial[1]):
                    partial = found, absent
            if partial is not None:
                return partial
        raise ClusterUnreachable(
            f"no broker of {', '.join(self.bootstrap)} answered within {patience:.0f} s"
            f" ({'; '.join(why.values()) or 'no answer'});"
            " is the cluster up, and are its advertised addresses reachable from here?"
        )

    def _metadata(
        self, address: str, topics: tuple[str, ...] | None
    ) -> metadata_pb2.MetadataResponse | str:
        request = metadata_pb2.MetadataRequest(
            only_named=topics is not None,
            topics=[metadata_pb2.TopicRef(name=name) for name in topics or ()],
        )
        try:
            answer = stub_for(address).Metadata(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            return f"{address}: {transport_text(error)}"
        self._known = tuple(f"{b.host}:{b.port}" for b in answer.brokers)
        return answer

    def _leaders_in(self, answer: metadata_pb2.MetadataResponse) -> Leaders | None:
        """Returns the described partitions; None if a broker that lags behind known epochs
        describes one of them.
        """
        if self._read is not None and self._read[:2] == (answer, self._raised):
            return self._read[2]
        addresses = {b.node_id: f"{b.host}:{b.port}" for b in answer.brokers}
        for_ranges = {b.node_id: f"{b.host}:{b.port}" for b in answer.range_brokers}
        out: Leaders = {}
        for topic in answer.topics:
            if topic.error_code == UnknownTopicOrPartition.code:
                continue
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
                    topic.is_internal,
                    for_ranges.get(p.leader, ""),
                )
        self._read = answer, self._raised, out
        return out

    def marks(self, leaders: Leaders) -> Marks:
        """Returns log start and high watermark of each partition, with one ListOffsets to each
        broker. With `read_committed`, the last stable offset takes the place of the high watermark.

        A new leader gives its high watermark only once it cannot go back (I-11).
        """

        def ask(address: str, part: Leaders) -> _Answers[tuple[int, int]]:
            question = self._asked.get(address)
            if question is None or question.part != part:
                both = [(tp, at) for tp in part for at in (EARLIEST, LATEST)]
                question = self._asked[address] = ListOffsetsQuestion(
                    part, both, self._isolation_level
                )
            call = question.ask(stub_for(address), CALL_SECONDS)

            def results() -> Iterator[tuple[TopicPartition, int, tuple[int, int]]]:
                answers = iter(question.answers(call))
                for tp, first, last in zip(part, answers, answers, strict=True):
                    yield tp, first.error_code or last.error_code, (first.offset, last.offset)

            return results

        found = self._of_leaders(leaders, ask, leaders)
        return {tp: Mark(leader, *answer) for tp, (answer, leader) in found.items()}

    def offsets_at(
        self, times: Mapping[TopicPartition, int], leaders: Leaders
    ) -> dict[TopicPartition, int]:
        """Returns the first offset whose timestamp is at or after the time in milliseconds; -1 if
        there is none yet.
        """

        def ask(address: str, part: Leaders) -> _Answers[int]:
            wanted = ((tp, times[tp]) for tp in part)
            question = ListOffsetsQuestion(part, wanted, self._isolation_level)
            call = question.ask(stub_for(address), CALL_SECONDS)

            def results() -> Iterator[tuple[TopicPartition, int, int]]:
                for tp, answer in zip(part, question.answers(call), strict=True):
                    yield tp, answer.error_code, answer.offset

            return results

        return {tp: at for tp, (at, _) in self._of_leaders(times, ask, leaders).items()}

    def epoch_ends(
        self, wanted: Mapping[TopicPartition, int], leaders: Leaders
    ) -> dict[TopicPartition, int]:
        """Returns the offset where the leader's log leaves the given epoch (OffsetsForLeaderEpoch).
        Raises TopicChanged if a topic is not the one of `leaders` any more.
        """

        def ask(address: str, part: Leaders) -> _Answers[int]:
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
            call = stub_for(address).OffsetsForLeaderEpoch.future(
                fetch_pb2.OffsetsForLeaderEpochRequest(replica_id=-1, topics=topics.values()),
                timeout=CALL_SECONDS,
            )

            def results() -> Iterator[tuple[TopicPartition, int, int]]:
                names = {(leader.topic_id, tp.partition): tp for tp, leader in part.items()}
                for result_topic in call.result().topics:
                    for p in result_topic.partitions:
                        tp = names[(result_topic.topic_id, p.partition)]
                        # A leader that cannot answer has not begun its own epoch yet.
                        silent = p.error_code == NONE and p.end_offset < 0
                        yield tp, OffsetNotAvailable.code if silent else p.error_code, p.end_offset

            return results

        return {tp: end for tp, (end, _) in self._of_leaders(wanted, ask, leaders).items()}

    def _of_leaders(
        self,
        wanted: Iterable[TopicPartition],
        ask: Callable[[str, Leaders], _Answers[_Answer]],
        leaders: Leaders,
    ) -> dict[TopicPartition, tuple[_Answer, Leader]]:
        """Asks each partition's leader, all brokers at once, and again after elections, until every
        partition has an answer.
        """
        pending = dict.fromkeys(wanted)
        known = leaders
        done: dict[TopicPartition, tuple[_Answer, Leader]] = {}
        why: dict[TopicPartition, str] = {}
        first = True
        for left in pauses(self._patience) if pending else ():
            if not first:
                leaders = self._same(known, pending, left)
            first = False
            parts = _by_address(pending, leaders, why)
            asked = [(address, part, ask(address, part)) for address, part in parts.items()]
            for address, part, results in asked:
                try:
                    for tp, code, answer in results():
                        if code == NONE:
                            done[tp] = (answer, part[tp])
                            del pending[tp]
                        else:
                            why[tp] = retriable_text(tp, code)
                except grpc.RpcError as error:
                    why |= dict.fromkeys(part, f"{address}: {transport_text(error)}")
            if not pending:
                break
        if pending:
            worst = min(pending)
            raise ClusterUnreachable(
                f"{worst} gave no offset within {self._patience:.0f} s: "
                f"{why.get(worst, 'no answer')}"
            )
        return done

    def _same(self, known: Leaders, pending: Iterable[TopicPartition], left: float) -> Leaders:
        """Returns the present leaders of the same topics as before."""
        found, _ = self.existing(sorted({tp.topic for tp in pending}), left)
        for tp in pending:
            if tp not in found or found[tp].topic_id != known[tp].topic_id:
                raise TopicChanged(f"topic {tp.topic} was deleted or created again meanwhile")
        return found


def _by_address(
    pending: Iterable[TopicPartition], leaders: Leaders, why: dict[TopicPartition, str]
) -> dict[str, Leaders]:
    """Returns the pending partitions by leader's address; `why` gets a reason for each without a
    leader.
    """
    out: dict[str, Leaders] = {}
    for tp in sorted(pending):
        if leaders[tp].address:
            out.setdefault(leaders[tp].address, {})[tp] = leaders[tp]
        else:
            why[tp] = "it has no leader"
    return out


READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
REPLICA: Final = -1
"""The replica id of a client."""


class ListOffsetsQuestion:
    """A question that can be asked again as long as the leaders are the same."""

    def __init__(
        self,
        part: Mapping[TopicPartition, Leader],
        wanted: Iterable[tuple[TopicPartition, int]],
        isolation_level: int,
    ) -> None:
        self.part = part
        topics: dict[bytes, fetch_pb2.ListOffsetsTopic] = {}
        places: dict[bytes, list[int]] = {}
        count = 0
        for tp, timestamp in wanted:
            leader = part[tp]
            topic = topics.get(leader.topic_id)
            if topic is None:
                topic = fetch_pb2.ListOffsetsTopic(topic_id=leader.topic_id)
                topics[leader.topic_id], places[leader.topic_id] = topic, []
            topic.partitions.add(
                partition=tp.partition, current_leader_epoch=leader.epoch, timestamp=timestamp
            )
            places[leader.topic_id].append(count)
            count += 1
        self._request = fetch_pb2.ListOffsetsRequest(
            replica_id=REPLICA, isolation_level=isolation_level, topics=topics.values()
        )
        self._places = places
        self._count = count

    def ask(self, stub: Any, seconds: float) -> Any:
        """Starts a call, which `answers` takes."""
        return stub.ListOffsets.future(self._request, timeout=seconds)

    def answers(self, call: Any) -> list[fetch_pb2.ListOffsetsPartitionResult]:
        """Returns one answer for each wanted partition, in order. Raises RpcError."""
        placed = {
            place: result
            for topic in call.result().topics
            for place, result in zip(self._places[topic.topic_id], topic.partitions, strict=True)
        }
        return [placed[place] for place in range(self._count)]
