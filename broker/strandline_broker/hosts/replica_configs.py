"""What the configuration that the controller pushes means for the replicas here.

A topic's own entries come with each push about the topic, what was altered for brokers with a push
of its own. Either way the replica goes by it from its next append, fetch or sweep on: `configure`
is called on the event loop, between two of them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from strandline_broker.storage.log import LogConfig
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.core.topic_config import TopicConfig
    from strandline_broker.hosts.dynamic_config import DynamicConfig
    from strandline_broker.hosts.partition import Partition


def log_config(topic: TopicConfig) -> LogConfig:
    """What storage has to know of a topic's configuration."""
    return LogConfig(**{field.name: getattr(topic, field.name) for field in fields(LogConfig)})


def keep_everything(config: DynamicConfig) -> LogConfig:
    """The configuration of a log whose topic's is not known yet: nothing is deleted or compacted.

    A broker that has just started, or finds no controller, must not apply its own defaults to a
    topic that may be kept for ever.
    """
    return replace(
        log_config(config.resolve({})),
        cleanup_policy=("delete",),
        retention_bytes=-1,
        retention_ms=-1,
    )


def configure_replicas(
    metadata: MetadataCache, partitions: Mapping[tuple[bytes, int], Partition], envelope: Envelope
) -> None:
    """Take over every change of configuration in an envelope, whether or not it changes a role."""
    named: dict[TopicId, Mapping[str, str]] = {t.topic_id: t.configs for t in envelope.topics}
    named |= {t.topic_id: t.configs for t in envelope.hosted_topics}
    known = metadata.view.topics_by_id
    if envelope.dynamic_configs is not None or any(
        topic_id not in known or known[topic_id].configs != configs
        for topic_id, configs in named.items()
    ):
        concerned = list(partitions.values())
    else:  # who hears of its topic for the first time
        keys = ((state.topic_id, state.partition) for state in envelope.leader_and_isr)
        found = (partitions.get(key) for key in keys)
        concerned = [p for p in found if p is not None and p.topic_configs is None]
    for partition in concerned:
        topic_id = TopicId(partition.key[0])
        if topic_id in named or envelope.dynamic_configs is not None:
            partition.configure(named.get(topic_id))
