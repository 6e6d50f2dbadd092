"""The parts of a broker that the calls of a Kafka listener stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.member.producer_ids import ProducerIds
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.record_check import RecordChecks
    from strandline_broker.hosts.serving.applied_views import AppliedViews
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_broker.kafka.cluster.forward import ToController
    from strandline_broker.telemetry import ServerMetrics
    from strandline_runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Services:
    runtime: Runtime
    metrics: ServerMetrics
    config: BrokerConfig
    """The configuration at the start, without what was altered since."""
    metadata: MetadataCache
    views: AppliedViews
    replicas: ReplicaManager
    checks: RecordChecks
    copies: LeaderThrottle
    shards: Shards[GroupShard]
    transactions: Shards[TransactionShard]
    producer_ids: ProducerIds
    controller: ToController
    verifier: Verifier | None = None
    """None: transactions are refused."""
