"""The replicas that may join an ISR, by broker and by replica, and the leaders that must learn of
it (I-9, P-58).

The state is that of the envelope that is being applied, or of the last applied one. A leader that
begins within an envelope uses that envelope's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.replica.leading import Leading
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import BrokerEpoch, BrokerId

    Key = tuple[bytes, int]


class Eligibility:
    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.brokers: Mapping[BrokerId, BrokerEpoch] = {}
        """Brokers that are unfenced and not shutting down, with their current epochs."""
        self._told: Mapping[Key, Collection[BrokerId]] = {}
        self._named: dict[Key, None] = {}
        """The partitions whose leaders must get the news."""

    def on_envelope(self, envelope: Envelope) -> None:
        """Use an envelope that is accepted and not yet applied."""
        self.brokers = self._metadata.eligible_after(envelope)
        self._told = {
            (topic.topic_id, partition.partition): partition.offline_replicas
            for topic in envelope.topics
            for partition in topic.partitions
        }
        led = ((state.topic_id, state.partition) for state in envelope.leader_and_isr)
        self._named = dict.fromkeys((*self._told, *led))

    def offline(self, key: Key) -> Collection[BrokerId]:
        """Brokers whose replica of the partition may not join its ISR, though the broker may be
        eligible: the replica lies on a failed directory, or heals.
        """
        told = self._told.get(key)
        if told is not None:
            return told
        known = self._metadata.view.partition(TopicId(key[0]), key[1])
        return () if known is None else known.offline_replicas

    def tell_leader(self, partition: Partition) -> None:
        """Pass the eligible replicas to a leader before its newer partition epoch. That epoch may
        bar some of them, and the leader proposes no barred one in it (I-15, I-16).
        """
        self._named.pop(partition.key, None)
        if isinstance(partition.role, Leading):
            partition.role.on_eligible(self.brokers, offline=self.offline(partition.key))

    def tell_leaders(self, partitions: Mapping[Key, Partition]) -> None:
        """Pass the eligible replicas to the other affected leaders, after the envelope was applied.
        If brokers came or went, these are the leaders with a replica there: the controller names
        each of their partitions.
        """
        for key in list(self._named):
            partition = partitions.get(key)
            if partition is not None:
                self.tell_leader(partition)
        self._told, self._named = {}, {}  # the view has it from here on
