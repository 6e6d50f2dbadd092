"""The writing of end markers to partitions that this broker leads, for coordinators and operators.

All markers of a request are appended first, then one wait serves them all. A marker is reported
once it is committed (I-164). The wait is short, because the sender asks again and finds its marker
in the log (I-156). So a partition that cannot commit holds up no other one for long.

A marker for a partition of `__consumer_offsets` passes through the group's shard (P-104).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite
from strandline_proto.errors import (
    InvalidRequest,
    InvalidTxnState,
    RequestTimedOut,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.appends import Appends
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import AckWaiter, ProduceOutcome
    from strandline_broker.hosts.transactions.broker_calls import Results

    GroupMarkers = Callable[[Key, EndMarker], Coroutine[Any, Any, None]]
    Error = WireError | None

COMMIT_MS: Final = 1_000
"""Longest wait for the commit of a request's markers."""
AT_ONCE: Final = 100
"""Markers that are appended between two yields to other calls."""
EPOCH_MAX: Final = 2**15 - 1
VERSIONS: Final = range(3)
"""Transaction versions of markers."""
OF_AN_OPERATOR: Final = 0
"""Transaction version of an operator's marker: its epoch may be that of the data."""
_NOT_COMMITTED: Final = f"the marker is not committed after {COMMIT_MS} ms, and may still be"


class MarkersService:
    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        group_markers: GroupMarkers | None = None,
    ) -> None:
        """`group_markers` writes a marker through the shard of a group's partition."""
        self._replicas = replicas
        self._metadata = metadata
        self._group_markers = group_markers

    async def write(self, markers: Sequence[MarkerToWrite]) -> Results:
        """Returns the result of each partition of each marker, in order."""
        turns, begun = Turns(AT_ONCE), list[list[_Begun]]()
        async with asyncio.TaskGroup() as group:
            try:
                for asked in markers:
                    of_one = list[_Begun]()
                    begun.append(of_one)
                    for key in asked.partitions:
                        await turns.took()
                        of_one.append(self._begin(key, asked.marker, group))
                waits = [each.result for of_one in begun for each in of_one]
                if not all(result.done() for result in waits):
                    await asyncio.wait(waits, timeout=COMMIT_MS / 1000)
            finally:  # a caller that has gone leaves no waiters
                for of_one in begun:
                    for each in of_one:
                        each.time_out()
        return [[each.result.result() for each in of_one] for of_one in begun]

    async def abort(
        self, key: Key, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Ends the producer's open transaction in one partition, for an operator who has found that
        no coordinator does (KIP-664). The epochs are those of DescribeProducers; a coordinator
        epoch of -1 is taken for 0. Raises WireError.
        """
        partition = self._led(key)
        open_epoch = partition.producers.open_epoch(producer_id)
        if open_epoch is None:
            raise InvalidTxnState(
                f"{partition.name}: producer {producer_id} has no open transaction;"
                " DescribeProducers lists the producers with one"
            )
        marker = EndMarker(
            ProducerId(producer_id),
            ProducerEpoch(producer_epoch),
            is_commit=False,
            coordinator_epoch=LeaderEpoch(max(coordinator_epoch, 0)),
            transaction_version=OF_AN_OPERATOR,
        )
        ((error,),) = await self.write([MarkerToWrite(marker, [key])])
        if error is not None:
            raise error

    def _begin(self, key: Key, marker: EndMarker, group: asyncio.TaskGroup) -> _Begun:
        """Appends the marker to one partition, or begins to."""
        result: asyncio.Future[Error] = asyncio.get_running_loop().create_future()
        try:
            _check(marker)
            partition = self._led(key)
            if partition.log.topic == CONSUMER_OFFSETS:
                return _Begun(group.create_task(self._through_group(key, marker)))
            end = append_marker(partition, marker)
            if end is None:
                result.set_result(None)
                return _Begun(result)
            appends = check_leader(partition, None).appends
            waiter = appends.after_commit(end, lambda outcome: _set(result, outcome))
        except WireError as error:
            result.set_result(error)
            return _Begun(result)
        return _Begun(result, appends, waiter)

    def _led(self, key: Key) -> Partition:
        partition = self._replicas.find(*key)
        if partition is None:
            raise why_unknown(self._replicas, self._metadata, *key)
        check_leader(partition, None)
        return partition

    async def _through_group(self, key: Key, marker: EndMarker) -> Error:
        if self._group_markers is None:
            return UnsupportedVersion("this broker coordinates no groups")
        try:
            async with asyncio.timeout(COMMIT_MS / 1000):
                await self._group_markers(key, marker)
        except TimeoutError:
            return RequestTimedOut(f"partition {key[1]} of {CONSUMER_OFFSETS}: {_NOT_COMMITTED}")
        except WireError as error:
            return error
        return None


class _Begun(NamedTuple):
    """One marker in one partition, which is appended or refused."""

    result: asyncio.Future[Error]
    appends: Appends | None = None
    waiter: AckWaiter | None = None

    def time_out(self) -> None:
        """Ends the wait of a marker that is not committed."""
        if self.appends is not None and self.waiter is not None:
            self.appends.time_out(self.waiter, COMMIT_MS)


def _set(result: asyncio.Future[Error], outcome: ProduceOutcome) -> None:
    if not result.done():
        result.set_result(outcome.error)


def _check(marker: EndMarker) -> None:
    """Checks the marker of a request. Raises InvalidRequest."""
    numbers = {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "coordinator_epoch": marker.coordinator_epoch,
    }
    for name, value in numbers.items():
        if value < 0:
            raise InvalidRequest(f"a marker has {name} {value}; it must be 0 or above")
    if marker.producer_epoch > EPOCH_MAX:
        raise InvalidRequest(
            f"a marker has producer_epoch {marker.producer_epoch}; {EPOCH_MAX} is the highest"
        )
    if marker.transaction_version not in VERSIONS:
        raise InvalidRequest(
            f"a marker has transaction_version {marker.transaction_version}; this broker knows 0"
            " to 2"
        )
