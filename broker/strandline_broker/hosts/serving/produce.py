"""Produce: one batch to the leader of its partition, and the acknowledgement it waits for.

A batch is appended in one synchronous step, so a client that disconnects cancels nothing half done
(P-38).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.replica.appends import ACKS_ALL
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_proto.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRequiredAcks,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordTooLarge,
    RequestTimedOut,
    UnknownLeaderEpoch,
    UnsupportedVersion,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.appends import Appends
    from strandline_broker.hosts.replica.purgatory import AckWaiter, ProduceOutcome
    from strandline_broker.hosts.replica.record_check import Looked, RecordChecks
    from strandline_proto.decompression import Buffer

EXPECTED: Final = (
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordTooLarge,
    UnknownLeaderEpoch,
)
"""Refusals that do not count as failed requests, as in Kafka: clients meet them in good order."""


class AwaitedAppend(NamedTuple):
    """An appended batch whose acks are not reached yet."""

    partition: str
    appends: Appends
    waiter: AckWaiter

    def time_out(self, timeout_ms: int) -> None:
        """Answers with RequestTimedOut, unless the batch has its answer by now."""
        if not self.waiter.is_done:
            error = RequestTimedOut(
                f"{self.partition}: not committed within {timeout_ms} ms;"
                " the records were appended and may still be"
            )
            self.appends.timed_out(self.waiter, error)


class ProduceService:
    """The service of produce requests; `checks` validates large or compressed batches before their
    turn, off the event loop.
    """

    def __init__(
        self, replicas: ReplicaManager, metadata: MetadataCache, checks: RecordChecks
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self.checks = checks

    def append(
        self,
        key: tuple[bytes, int],
        batch: Buffer,
        *,
        current_leader_epoch: int | None,
        acks: int,
        is_transactional: bool,
        on_done: Callable[[ProduceOutcome], None],
        looked: Looked | None,
        connection: object = None,
    ) -> AwaitedAppend | None:
        """Appends the batch; None if `on_done` has been called already.

        Raises WireError if nothing was appended; `on_done` is not called then.
        """
        if acks not in (0, 1, ACKS_ALL):
            raise InvalidRequiredAcks(f"acks is {acks}; it must be 0, 1 or -1 (all)")
        if is_transactional:
            raise UnsupportedVersion("transactions are not supported yet; unset transactional.id")
        partition = self._replicas.find(*key)
        if partition is None:
            raise why_unknown(self._replicas, self._metadata, *key)
        partition.counters.produce_requests += 1
        try:
            appends = check_leader(partition, current_leader_epoch).appends
            waiter = appends.append(
                batch, acks=acks, on_done=on_done, looked=looked, connection=connection
            )
        except WireError as error:
            if not isinstance(error, EXPECTED):
                partition.counters.failed_produce_requests += 1
            raise
        return None if waiter is None else AwaitedAppend(partition.name, appends, waiter)
