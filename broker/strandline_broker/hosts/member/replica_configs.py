"""The effect of a pushed configuration on the replicas here.

A topic's own entries arrive with each push about the topic; values altered for brokers have a push
of their own. The replica uses them from its next append, fetch or retention check on. `configure`
is called on the event loop, between two of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.replica.partition import Partition


def configure_replicas(
    metadata: MetadataCache, partitions: Mapping[tuple[bytes, int], Partition], envelope: Envelope
) -> None:
    """Take over every change of configuration in an envelope, whether or not it changes a role."""
    named: dict[TopicId, Mapping[str, str]] = {t.topic_id: t.configs for t in envelope.topics}
    named |= {t.topic_id: t.configs for t in envelope.hosted_topics}
    if envelope.dynamic_configs is not None:  # any topic's configuration may have changed
        for partition in partitions.values():
            partition.configure(named.get(TopicId(partition.key[0])))
        return
    for state in envelope.leader_and_isr:
        new = partitions.get((state.topic_id, state.partition))
        if new is not None and new.topic_configs is None:
            new.configure(named.get(state.topic_id))
    for topic_id, configs in named.items():
        known = metadata.view.topic(topic_id)
        if known is None or known.configs == configs:
            continue
        for index in known.partitions:
            held = partitions.get((topic_id, index))
            if held is not None:
                held.configure(configs)
