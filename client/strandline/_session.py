"""What every client object opens and closes: channels, tasks, and a fresh view of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._cluster import Cluster
from strandline._connections import Connections
from strandline._tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_runtime.runtime import Runtime


class Session:
    """An open connection to a cluster."""

    def __init__(
        self,
        name: str,
        bootstrap: tuple[str, ...],
        runtime: Runtime | None,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        if runtime is None:
            from strandline_runtime.real import client_runtime

            runtime = client_runtime()
        self.runtime = runtime
        self.connections = Connections(runtime)
        self.tasks = Tasks(f"strandline {name}", on_failure)
        self.cluster = Cluster(runtime, self.connections, bootstrap)

    async def open(self, timeout_s: float) -> None:
        """Connect. Raises NoBrokerReachable, and leaves nothing behind then."""
        try:
            await self.tasks.open()
            self.tasks.start(self.cluster.run(), "metadata")
            await self.cluster.refresh(timeout_s)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        try:
            await self.tasks.close()
        finally:
            await self.connections.close()
