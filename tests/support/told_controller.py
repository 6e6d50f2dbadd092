"""What replicas tell a controller that is not there: the test replaces what it wants to hear."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_proto.ids import BrokerEpoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.hosts.replica.partition import Partition


def _nothing() -> None:
    pass


@dataclass
class ToldController:
    epoch: int
    proposals: list[ProposeIsr] = field(default_factory=list)
    on_offline: Callable[[], None] = _nothing
    on_asked: Callable[[], None] = _nothing
    known_at: Callable[[tuple[bytes, int]], int | None] = lambda _: None

    def broker_epoch(self) -> BrokerEpoch:
        return BrokerEpoch(self.epoch)

    def is_sure(self) -> bool:
        return True

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        self.proposals.append(proposal)

    def report_offline(self) -> None:
        self.on_offline()

    def offline_known_at(self, key: tuple[bytes, int]) -> int | None:
        return self.known_at(key)

    def ask_for_all(self) -> None:
        self.on_asked()
