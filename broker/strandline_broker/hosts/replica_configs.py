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
    if envelope.dynamic_configs is not None:  # what any topic goes by may have changed
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
