"""What applies envelopes to the replicas of a test, with the parts that an app gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.member.envelopes import Envelopes

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_runtime.runtime import Runtime


def applied_to(
    replicas: ReplicaManager,
    runtime: Runtime,
    metadata: MetadataCache,
    controller: ToController,
    *,
    session_s: Callable[[], float],
) -> Envelopes:
    return Envelopes(
        runtime,
        metadata,
        controller,
        replicas,
        config=replicas.config,
        eligibility=replicas.eligibility,
        roles=replicas.roles,
        logs=replicas.logs,
        fetchers=replicas.fetchers,
        session_s=session_s,
    )
