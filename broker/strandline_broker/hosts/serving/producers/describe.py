"""DescribeProducers: the producers that a partition's leader remembers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.replication.producer_state import NO_SEQUENCE
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_broker.hosts.serving.turns import ANSWERED_MAX, Turns
from strandline_proto.errors import InvalidRequest

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.member.replica_manager import ReplicaManager

SORTED_AS: Final = 20
"""Producers that take as long to sort as one takes to describe."""


class DescribedProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1: no batch is known."""
    last_timestamp: int
    """-1: no batch is known."""
    coordinator_epoch: int
    """-1: no marker was written."""
    txn_start_offset: int
    """First offset of the open transaction; -1: none is open."""


class ProducersService:
    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
        self._metadata = metadata

    async def describe(
        self, key: Key, turns: Turns, at_most: int = ANSWERED_MAX
    ) -> list[DescribedProducer]:
        """Returns the producers by id; InvalidRequest if there are more. Raises WireError."""
        partition = self._replicas.find(*key)
        if partition is None:
            raise why_unknown(self._replicas, self._metadata, *key)
        check_leader(partition, None)
        count = len(partition.producers)
        if count > at_most:
            raise InvalidRequest(
                f"{partition.name} has {count} producers, and one answer describes at most"
                f" {ANSWERED_MAX}: ask for fewer partitions, or lower producer.id.expiration.ms"
            )
        await turns.took(count // SORTED_AS)
        described = []
        for producer_id in partition.producers.ids():
            await turns.took()
            found = partition.producers.of(producer_id)
            if found is not None:  # it may have expired since
                described.append(
                    DescribedProducer(
                        producer_id,
                        found.producer_epoch,
                        found.batches[-1].last_sequence if found.batches else NO_SEQUENCE,
                        found.last_timestamp,
                        found.coordinator_epoch,
                        found.txn_first_offset,
                    )
                )
        return described
