"""Asks leaders about offsets: ends of logs, offsets for times, ends of epochs. With retries and a
deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._core.backoff import Backoff
from strandline.errors import (
    BrokerError,
    LeaderNotAvailable,
    OperationTimedOut,
    StrandlineError,
    TopicRecreated,
    UnknownTopicId,
    UnknownTopicOrPartition,
    describe,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline._cluster import Cluster
    from strandline._core.cluster_view import PartitionKey
    from strandline._session import Session

ATTEMPT_S: Final = 2.0


class Listed(NamedTuple):
    """A leader's answer; `offset` is -1 if no record matches."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    asked_in: int
    """The leader epoch in which the question was asked."""
    epoch: int
    end_offset: int


class Offsets:
    """Questions to the leaders of partitions."""

    def __init__(self, session: Session) -> None:
        self._runtime = session.runtime
        self._connections = session.connections
        self._cluster = session.cluster

    async def listed(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> dict[PartitionKey, Listed]:
        """The offset for each timestamp (-1 latest, -2 earliest). Raises for any that has none in
        time.
        """
        clock = self._runtime.clock.monotonic
        deadline = clock() + timeout_s
        backoff = Backoff()
        found: dict[PartitionKey, Listed] = {}
        while True:
            missing = {key: ts for key, ts in wanted.items() if key not in found}
            failures = await self.list_once(missing, found, max(0.001, deadline - clock()))
            if not failures:
                return found
            for error in failures.values():
                if isinstance(error, BrokerError) and not error.retriable:
                    raise error
            wait_s = backoff.next_ms(self._runtime.rng.random()) / 1000
            if clock() + wait_s >= deadline:
                (topic_id, partition), cause = next(iter(failures.items()))
                raise OperationTimedOut(
                    f"offsets of {self.name(topic_id)}/{partition} did not come within "
                    f"{timeout_s * 1000:.0f} ms: {describe(cause)}",
                    cause,
                )
            self._cluster.request_refresh()
            await asyncio.sleep(wait_s)
            self._check_topics(wanted)

    def name(self, topic_id: bytes) -> str:
        topic = self._cluster.view.by_id.get(topic_id)
        return topic_id.hex() if topic is None else topic.name

    def _check_topics(self, wanted: Mapping[PartitionKey, int]) -> None:
        for topic_id, _ in wanted:
            if topic_id not in self._cluster.view.by_id:
                raise UnknownTopicOrPartition("the topic was deleted, perhaps created anew")

    async def list_once(
        self,
        wanted: Mapping[PartitionKey, int],
        found: dict[PartitionKey, Listed],
        timeout_s: float,
    ) -> dict[PartitionKey, StrandlineError]:
        """Ask each leader once; what came is in `found`, what did not in the answer, with why."""
        failures: dict[PartitionKey, StrandlineError] = {}
        routes = self._routes(list(wanted), failures)

        async def ask(address: str, keys: dict[PartitionKey, int]) -> None:
            request = fetch_pb2.ListOffsetsRequest(replica_id=-1)
            for (topic_id, partition), epoch in keys.items():
                request.topics.add(topic_id=topic_id).partitions.add(
                    partition=partition,
                    current_leader_epoch=epoch,
                    timestamp=wanted[topic_id, partition],
                )
            try:
                answer = await self._connections.call(
                    address,
                    lambda stub: stub.ListOffsets,
                    request,
                    timeout_s=min(ATTEMPT_S, timeout_s),
                    returns=fetch_pb2.ListOffsetsResponse,
                )
            except StrandlineError as error:
                failures.update(dict.fromkeys(keys, error))
                return
            for topic in answer.topics:
                for p in topic.partitions:
                    key = (topic.topic_id, p.partition)
                    if p.error_code == NONE:
                        found[key] = Listed(p.offset, p.timestamp, p.leader_epoch)
                    else:
                        failures[key] = from_code(p.error_code, p.error_message)
            for key in keys:
                if key not in found:
                    failures.setdefault(key, LeaderNotAvailable(f"{address} left it out"))

        async with asyncio.TaskGroup() as group:
            for address, keys in routes.items():
                group.create_task(ask(address, keys))
        return failures

    async def epoch_ends(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> tuple[dict[PartitionKey, EpochEnd], dict[PartitionKey, StrandlineError]]:
        """Where each epoch ends in the leader's log (KIP-101); one try, failures beside."""
        found: dict[PartitionKey, EpochEnd] = {}
        failures: dict[PartitionKey, StrandlineError] = {}
        routes = self._routes(list(wanted), failures)

        async def ask(address: str, keys: dict[PartitionKey, int]) -> None:
            request = fetch_pb2.OffsetsForLeaderEpochRequest(replica_id=-1)
            for (topic_id, partition), epoch in keys.items():
                request.topics.add(topic_id=topic_id).partitions.add(
                    partition=partition,
                    current_leader_epoch=epoch,
                    leader_epoch=wanted[topic_id, partition],
                )
            try:
                answer = await self._connections.call(
                    address,
                    lambda stub: stub.OffsetsForLeaderEpoch,
                    request,
                    timeout_s=min(ATTEMPT_S, timeout_s),
                    returns=fetch_pb2.OffsetsForLeaderEpochResponse,
                )
            except StrandlineError as error:
                failures.update(dict.fromkeys(keys, error))
                return
            for topic in answer.topics:
                for p in topic.partitions:
                    key = (topic.topic_id, p.partition)
                    if p.error_code == NONE and key in keys:
                        found[key] = EpochEnd(keys[key], p.leader_epoch, p.end_offset)
                    else:
                        failures[key] = from_code(p.error_code)

        async with asyncio.TaskGroup() as group:
            for address, keys in routes.items():
                group.create_task(ask(address, keys))
        return found, failures

    def _routes(
        self, keys: list[PartitionKey], failures: dict[PartitionKey, StrandlineError]
    ) -> dict[str, dict[PartitionKey, int]]:
        """By the address of its leader: each partition with the leader epoch to ask in."""
        routes: dict[str, dict[PartitionKey, int]] = {}
        view = self._cluster.view
        for key in keys:
            leader = view.leader(*key)
            address = None if leader is None else self._cluster.address_of(leader[0])
            if leader is not None and address is not None:
                routes.setdefault(address, {})[key] = leader[1]
            elif key[0] not in view.by_id:
                failures[key] = UnknownTopicId("the topic is not known any more")
            else:
                failures[key] = LeaderNotAvailable(
                    f"{self.name(key[0])}/{key[1]} has no leader at the moment"
                )
        return routes


def why_gone(cluster: Cluster, topic: str) -> StrandlineError:
    """The topic of this name has another id now, or none."""
    if topic in cluster.view.topics:
        return TopicRecreated(
            f"topic {topic!r} was deleted and created anew; offsets in the old one mean nothing "
            "in the new one: assign it again to read it"
        )
    return UnknownTopicOrPartition(f"topic {topic!r} was deleted")
