"""Produce: one batch to the leader of its partition, and the acknowledgement it waits for.

A batch is appended in one synchronous step, so a client that disconnects cancels nothing half done
(P-38).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.replica.appends import ACKS_ALL
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.replica.purgatory import AckWaiter
from strandline_broker.hosts.replica.transactions.unverified import Room, Verification
from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_proto.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidRequiredAcks,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordTooLarge,
    UnknownLeaderEpoch,
    UnsupportedVersion,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.appends import Appends
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome
    from strandline_broker.hosts.replica.record_check import Looked, RecordChecks
    from strandline_broker.hosts.replica.transactions.unverified import UnverifiedAppend
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

    appends: Appends
    waiter: AckWaiter

    def time_out(self, timeout_ms: int) -> None:
        """Answers with an error, unless the batch has its answer by now."""
        self.appends.time_out(self.waiter, timeout_ms)

    def abandon(self, error: WireError) -> None:
        """Drops the answer, whose client has gone."""
        self.waiter.give_up(error)


class ProduceService:
    """The service of produce requests; `checks` validates large or compressed batches before their
    turn, off the event loop. `verifier` asks the coordinators of transactions; None: transactions
    are refused.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        checks: RecordChecks,
        verifier: Verifier | None = None,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._verifier = verifier
        self._room = Room()
        self.checks = checks

    def verification(self, transactional_id: str, transaction_version: int) -> Verification:
        """Returns what the batches of a request with a transactional id need. Raises WireError."""
        if self._verifier is None:
            raise UnsupportedVersion("this broker asks no coordinator; unset transactional.id")
        if not transactional_id:
            raise InvalidRequest("transactional_id is empty; set an id, or send none")
        return Verification(transactional_id, transaction_version, self._verifier, self._room)

    def append(
        self,
        key: tuple[bytes, int],
        batch: Buffer,
        *,
        current_leader_epoch: int | None,
        acks: int,
        verification: Verification | None,
        on_done: Callable[[ProduceOutcome], None],
        looked: Looked | None,
        connection: object = None,
    ) -> AwaitedAppend | UnverifiedAppend | None:
        """Appends the batch; None if `on_done` has been called already. With a `verification`, the
        batch may have to wait for its transaction's coordinator before.

        Raises WireError if nothing was appended; `on_done` is not called then.
        """
        if acks not in (0, 1, ACKS_ALL):
            raise InvalidRequiredAcks(f"acks is {acks}; it must be 0, 1 or -1 (all)")
        partition = self._replicas.find(*key)
        if partition is None:
            raise why_unknown(self._replicas, self._metadata, *key)
        partition.counters.produce_requests += 1
        try:
            appends = check_leader(partition, current_leader_epoch).appends
            waiter = appends.append(
                batch,
                acks=acks,
                on_done=on_done,
                looked=looked,
                connection=connection,
                verification=verification,
            )
        except WireError as error:
            if not isinstance(error, EXPECTED):
                partition.counters.failed_produce_requests += 1
            raise
        return AwaitedAppend(appends, waiter) if isinstance(waiter, AckWaiter) else waiter
