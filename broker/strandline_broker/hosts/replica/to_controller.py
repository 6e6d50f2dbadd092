"""The two protocols between replicas and the controller connection: the reports of replicas, and
the questions of heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.core.replication.replica_condition import RefusedTruncation
    from strandline_broker.hosts.common.controller_calls import OfflineReplicas
    from strandline_broker.hosts.replica.losses import Losses
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import BrokerEpoch


class ToController(Protocol):
    """The replicas' way to their controller, which they get when they are made."""

    def broker_epoch(self) -> BrokerEpoch:
        """Broker epoch of this incarnation; -1 before registration."""
        ...

    def is_sure(self) -> bool:
        """True if the controller cannot have elected another leader after this broker's session
        ended.
        """
        ...

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send the ISR proposal of the leader of `partition`; its answer goes to that leader."""
        ...

    def report_offline(self) -> None:
        """Send a heartbeat soon: there is news of replicas that do not count, or of losses."""
        ...

    def offline_known_at(self, key: tuple[bytes, int]) -> int | None:
        """The controller's log end when it first knew, in one run, that a replica is offline; None
        if it does not know.
        """
        ...

    def ask_for_all(self) -> None:
        """Request that everything is pushed again: some of it may be applicable now."""
        ...


class ReplicaReports(Protocol):
    """The content of heartbeats about replicas."""

    @property
    def losses(self) -> Losses: ...

    @property
    def applied_partitions(self) -> int:
        """Number of times that a push has stopped, made or given a role to a replica so far."""
        ...

    def offline_replicas(self) -> OfflineReplicas:
        """Replicas that cannot serve, or do not count as others do."""
        ...

    def strays(self) -> Sequence[str]:
        """Directories of replicas that no metadata assigns here (I-87)."""
        ...

    def refused_truncations(self) -> Sequence[RefusedTruncation]:
        """Truncations that replicas here have refused (I-41)."""
        ...
