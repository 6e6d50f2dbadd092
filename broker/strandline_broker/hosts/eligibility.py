"""Who may be in an ISR, by broker and by replica, and the leaders who must hear of it (I-9, P-58).

It is as of the envelope that is being applied, or of the last one that was: a leader that begins
within an envelope goes by what that envelope says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.partition import Partition
    from strandline_proto.ids import BrokerEpoch, BrokerId


class Eligibility:
    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.brokers: Mapping[BrokerId, BrokerEpoch] = {}
        """Those that are unfenced and not shutting down, with their current epochs."""
        self._told: Mapping[tuple[bytes, int], Collection[BrokerId]] = {}

    def on_envelope(self, envelope: Envelope) -> None:
        """Go by an envelope that is accepted and not yet applied."""
        self.brokers = self._metadata.eligible_after(envelope)
        self._told = {
            (topic.topic_id, partition.partition): partition.offline_replicas
            for topic in envelope.topics
            for partition in topic.partitions
        }

    def offline(self, key: tuple[bytes, int]) -> Collection[BrokerId]:
        """Whose replica of the partition may not join its ISR, though its broker may be eligible:
        it lies on a dead directory, or heals.
        """
        told = self._told.get(key)
        if told is not None:
            return told
        known = self._metadata.view.partition(TopicId(key[0]), key[1])
        return () if known is None else known.offline_replicas

    def tell_leaders(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            leader = partition.leader
            if leader is not None:
                effects = leader.on_eligible(self.brokers, offline=self.offline(partition.key))
                partition.carry_out(effects)
        self._told = {}  # the view has it from here on
