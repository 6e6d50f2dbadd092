"""The controller's pipeline over a cluster in memory, with as much room as the test says."""

from collections.abc import Callable
from typing import Any

from strandline_broker.core.controller.log.decision import Decision
from strandline_proto.errors import ThrottlingQuotaExceeded
from support.controller_cluster import Cluster


class ScriptedPipeline:
    """Takes so many decisions, and no more."""

    def __init__(self, cluster: Cluster, room: int) -> None:
        self.sizes: list[int] = []
        self._cluster = cluster
        self.room = room

    async def submit(self, decide: Callable[[], Decision[Any]]) -> Any:
        if len(self.sizes) == self.room:
            raise ThrottlingQuotaExceeded("too many decisions are waiting")
        decision = decide()
        self.sizes.append(len(decision.records))
        return self._cluster.commit(decision)
