"""Partitions by the names of their topics, and the errors of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_proto.errors import UnknownTopicId, UnknownTopicOrPartition, WireError

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.kafka.services import Services


class NamedPartitions:
    """The partitions as a request names them that knows no topic ids."""

    def __init__(self, services: Services) -> None:
        self._metadata: MetadataCache = services.metadata
        self._replicas: ReplicaManager = services.replicas

    def key(self, topic: str, index: int) -> Key:
        """Returns the partition's key. Raises UnknownTopicOrPartition."""
        topic_id = self._metadata.view.ids_by_name.get(topic)
        if topic_id is None:
            raise UnknownTopicOrPartition(f"this broker knows no topic {topic}")
        return topic_id, index

    def code(self, key: Key, error: WireError) -> int:
        """Returns the code for a client that knows no topic ids."""
        if isinstance(error, UnknownTopicId):
            error = why_unknown(self._replicas, self._metadata, *key)
        if isinstance(error, UnknownTopicId):
            return UnknownTopicOrPartition.code
        return error.code
