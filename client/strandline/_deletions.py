"""Asks leaders to delete records by offset, until they have or the deadline comes.

To ask again changes nothing that was done, so a lost answer or a new leader is no matter.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline._core.backoff import Backoff
from strandline.errors import (
    BrokerError,
    LeaderNotAvailable,
    OperationTimedOut,
    StrandlineError,
    describe,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import delete_records_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._session import Session

ATTEMPT_S: Final = 5.0
GRACE_S: Final = 1.0
"""How much longer than its own wait a leader may take to answer."""


class Deletions:
    def __init__(self, session: Session) -> None:
        self._runtime = session.runtime
        self._connections = session.connections
        self._cluster = session.cluster

    async def delete(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> dict[PartitionKey, int]:
        """The low watermark of each partition once no live replica in sync holds a record below the
        wanted offset. Raises the first error that asking again does not mend, or OperationTimedOut.
        """
        clock = self._runtime.clock.monotonic
        deadline = clock() + timeout_s
        backoff = Backoff()
        found: dict[PartitionKey, int] = {}
        while True:
            missing = {key: offset for key, offset in wanted.items() if key not in found}
            failures = await self._once(missing, found, max(0.001, deadline - clock()))
            if not failures:
                return found
            for error in failures.values():
                if isinstance(error, BrokerError) and not error.retriable:
                    raise error
            wait_s = backoff.next_ms(self._runtime.rng.random()) / 1000
            if clock() + wait_s >= deadline:
                cause = next(iter(failures.values()))
                raise OperationTimedOut(
                    f"the records were not known to be deleted on every replica within "
                    f"{timeout_s * 1000:.0f} ms: {describe(cause)}",
                    cause,
                )
            self._cluster.request_refresh()
            await asyncio.sleep(wait_s)

    async def _once(
        self,
        wanted: Mapping[PartitionKey, int],
        found: dict[PartitionKey, int],
        timeout_s: float,
    ) -> dict[PartitionKey, StrandlineError]:
        """Ask each leader once; what came is in `found`, what did not in the answer, with why."""
        failures: dict[PartitionKey, StrandlineError] = {}
        routes: dict[str, dict[PartitionKey, int]] = {}
        for key, offset in wanted.items():
            leader = self._cluster.view.leader(*key)
            address = None if leader is None else self._cluster.address_of(leader[0])
            if address is None:
                failures[key] = LeaderNotAvailable(f"partition {key[1]} has no leader just now")
            else:
                routes.setdefault(address, {})[key] = offset

        async def ask(address: str, offsets: dict[PartitionKey, int]) -> None:
            try:
                answered = await self._ask(address, offsets, min(ATTEMPT_S, timeout_s))
            except StrandlineError as error:
                failures.update(dict.fromkeys(offsets, error))
                return
            for key in offsets:
                result = answered.get(key)
                if result is None:
                    failures[key] = LeaderNotAvailable(f"{address} left it out")
                elif result.error_code == NONE:
                    found[key] = result.low_watermark
                else:
                    failures[key] = from_code(result.error_code, result.error_message)

        async with asyncio.TaskGroup() as group:
            for address, offsets in routes.items():
                group.create_task(ask(address, offsets))
        return failures

    async def _ask(
        self, address: str, offsets: Mapping[PartitionKey, int], timeout_s: float
    ) -> dict[PartitionKey, delete_records_pb2.DeleteRecordsPartitionResult]:
        request = delete_records_pb2.DeleteRecordsRequest(timeout_ms=int(timeout_s * 1000))
        for (topic_id, partition), offset in offsets.items():
            topic = request.topics.add(topic_id=topic_id)
            topic.partitions.add(partition=partition, offset=offset)
        answer = await self._connections.call(
            address,
            lambda stub: stub.DeleteRecords,
            request,
            timeout_s=timeout_s + GRACE_S,
            returns=delete_records_pb2.DeleteRecordsResponse,
        )
        return {
            (topic_result.topic_id, result.partition): result
            for topic_result in answer.topics
            for result in topic_result.partitions
        }
