"""The calls about the cluster, its topics and its configuration over Kafka's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.groups.group_settings import group_settings
from strandline_broker.hosts.serving.auto_creation import AutoCreation
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.hosts.serving.log_dirs import LogDirsService
from strandline_broker.kafka.cluster.api_versions import ApiVersionsCalls
from strandline_broker.kafka.cluster.configs import ConfigsCalls
from strandline_broker.kafka.cluster.describe_cluster import DescribeClusterCalls
from strandline_broker.kafka.cluster.elections import ElectionsCalls
from strandline_broker.kafka.cluster.forward import Forward
from strandline_broker.kafka.cluster.log_dirs import LogDirsCalls
from strandline_broker.kafka.cluster.metadata import MetadataCalls
from strandline_broker.kafka.cluster.reassignments import ReassignmentsCalls
from strandline_broker.kafka.cluster.security import SecurityCalls
from strandline_broker.kafka.cluster.topic_partitions import TopicPartitionsCalls
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
    yield DescribeClusterCalls(metadata, me=me, listener=listener)
    yield TopicsCalls(forward, configs)
    yield TopicPartitionsCalls(metadata, listener)
    yield ConfigsCalls(forward, configs, group_settings(services.config))
    yield LogDirsCalls(LogDirsService(services.runtime.fs, services.replicas))
    yield ElectionsCalls(forward)
    yield ReassignmentsCalls(forward, metadata)
    yield SecurityCalls()
