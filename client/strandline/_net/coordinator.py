"""The coordinator of a group or of a transactional id: the leader of its partition of an internal
topic, `__consumer_offsets` or `__transaction_state`.

The id hashes to the partition. The client computes the coordinator from metadata; while it does not
know that topic, it asks a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from strandline.errors import (
    BrokerError,
    BrokerUnreachable,
    CallNotServed,
    CoordinatorNotAvailable,
    NoBrokerReachable,
    NotCoordinator,
    StrandlineError,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.java_hash import partition_for
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.session import Session
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub

Answer = TypeVar("Answer")

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
_ASK_S: Final = 2.0


class Kind(NamedTuple):
    """A kind of coordinator, by the internal topic that holds its state."""

    topic: str
    key_type: int
    """In FindCoordinator."""
    noun: str


GROUP: Final = Kind(OFFSETS_TOPIC, 0, "the group")
TRANSACTION: Final = Kind(TRANSACTIONS_TOPIC, 1, "the transactional id")


class Coordinator:
    """Finds and calls the coordinator of one group or transactional id."""

    def __init__(self, session: Session, key: str, kind: Kind = GROUP) -> None:
        self._key = key
        self._kind = kind
        self._cluster = session.cluster
        self._connections = session.connections
        self._cluster.follow(kind.topic)

    def known_address(self) -> str | None:
        """Address of the coordinator by metadata; None if metadata does not have it."""
        partition = self._partition()
        leader = None if partition is None else self._cluster.view.leader(*partition)
        return None if leader is None else self._cluster.address_of(leader[0])

    def _partition(self) -> PartitionKey | None:
        topic = self._cluster.view.topics.get(self._kind.topic)
        if topic is None or not topic.partitions:
            return None
        return topic.topic_id, partition_for(self._key, len(topic.partitions))

    async def address(self, timeout_s: float) -> str:
        """Finds the address of the coordinator. Raises CoordinatorNotAvailable."""
        partition = self._partition()
        if partition is None:
            return await self._ask(timeout_s)
        address = self.known_address()
        if address is None:
            self._cluster.request_refresh()
            raise CoordinatorNotAvailable(
                f"{self._kind.topic}:{partition[1]}, whose leader coordinates {self._kind.noun} "
                f"{self._key!r}, has no leader at the moment"
            )
        return address

    async def _ask(self, timeout_s: float) -> str:
        self._cluster.request_refresh()
        request = groups_pb2.FindCoordinatorRequest(
            key_type=self._kind.key_type, coordinator_keys=[self._key]
        )
        try:
            answer = await self._cluster.ask_any(
                lambda stub: stub.FindCoordinator,
                request,
                timeout_s=min(_ASK_S, timeout_s),
                returns=groups_pb2.FindCoordinatorResponse,
            )
        except NoBrokerReachable as error:
            if isinstance(error.cause, CallNotServed):
                raise error.cause from None
            raise
        for found in answer.coordinators:
            if found.error_code != NONE:
                raise from_code(found.error_code, found.error_message)
            host = f"[{found.host}]" if ":" in found.host else found.host
            return f"{host}:{found.port}"
        raise CoordinatorNotAvailable("FindCoordinator was answered with nothing")

    async def call(
        self,
        method: Callable[[BrokerServiceAsyncStub], Callable[..., Any]],
        request: Any,
        *,
        timeout_s: float,
        returns: type[Answer],
    ) -> Answer:
        """Makes one unary call, once. Raises the error that prevents an answer."""
        address = await self.address(timeout_s)
        try:
            return await self._connections.call(
                address, method, request, timeout_s=min(_ASK_S, timeout_s), returns=returns
            )
        except StrandlineError as error:
            self.failed(error)
            raise

    def failed(self, error: StrandlineError) -> None:
        """Refreshes a stale view of the coordinator before the next call."""
        if isinstance(error, BrokerUnreachable | NotCoordinator) or not isinstance(
            error, BrokerError
        ):
            self._cluster.request_refresh()
