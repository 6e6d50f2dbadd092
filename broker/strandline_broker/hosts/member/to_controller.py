"""What the replicas of a broker tell their controller and know of it, and what its heartbeats ask
them: the two protocols between replicas and whatever speaks to the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.core.replication.replica_condition import RefusedTruncation
    from strandline_broker.hosts.member.controller_calls import OfflineReplicas
    from strandline_broker.hosts.replica.losses import Losses
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import BrokerEpoch


class ToController(Protocol):
    """Given to the replicas when they are made."""

    def broker_epoch(self) -> BrokerEpoch:
        """Of this incarnation; -1 before the registration."""
        ...

    def is_sure(self) -> bool:
        """Whether nobody else can have been elected because this broker was taken for dead."""
        ...

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """The leader of `partition` wishes another ISR; its answer goes to that leader."""
        ...

    def report_offline(self) -> None:
        """There is news of replicas that do not count, or of losses: have a heartbeat sent soon."""
        ...

    def offline_known_at(self, key: tuple[bytes, int]) -> int | None:
        """The controller's log end when it first knew, in one run, that a replica is offline; None
        if it does not know.
        """
        ...

    def ask_for_all(self) -> None:
        """Have everything pushed again: there is something that may be applied now."""
        ...


class ReplicaReports(Protocol):
    """What each heartbeat names of the replicas."""

    @property
    def losses(self) -> Losses: ...

    @property
    def applied_partitions(self) -> int:
        """How many times a push has stopped, made or given a role to a replica so far."""
        ...

    def offline_replicas(self) -> OfflineReplicas:
        """Those that cannot serve, or do not count as others do."""
        ...

    def strays(self) -> Sequence[str]:
        """Directories of replicas that nobody claims (I-87)."""
        ...

    def refused_truncations(self) -> Sequence[RefusedTruncation]:
        """What replicas here have refused to cut (I-41)."""
        ...
