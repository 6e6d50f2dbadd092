"""The calls about the cluster, its topics and its configuration over Kafka's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.auto_creation import AutoCreation
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.kafka.cluster.api_versions import ApiVersionsCalls
from strandline_broker.kafka.cluster.forward import Forward
from strandline_broker.kafka.cluster.metadata import MetadataCalls
from strandline_broker.kafka.cluster.topics import TopicsCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.kafka.services import Services


def cluster_parts(services: Services, listener: str) -> Iterable[Any]:
    metadata, views, me = services.metadata, services.views, services.replicas.me
    forward = Forward(services.controller, views)
    configs = ConfigsService(services.config, metadata)
    creation = None
    if services.config.auto_create_topics_enable:
        creation = AutoCreation(services.runtime, views, forward.create_topics)
    yield ApiVersionsCalls(metadata, me)
    yield MetadataCalls(metadata, views, creation, me=me, listener=listener)
    yield TopicsCalls(forward, configs)
