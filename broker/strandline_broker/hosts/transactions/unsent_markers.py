"""Stands for the sender of markers until there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.transactions.transaction_context import Place
    from strandline_proto.ids import LeaderEpoch


class UnsentMarkers:
    def send(
        self,
        transactional_id: str,
        marker: EndMarker,
        partitions: Collection[Place],
        done: Callable[[Place], None],
    ) -> None: ...

    def cancel(self, transactional_id: str, coordinator_epoch: LeaderEpoch) -> None: ...
