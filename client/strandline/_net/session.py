"""The session of a client object: channels, tasks, and a fresh view of the cluster."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from strandline._net.cluster import Cluster
from strandline._net.connections import Connections
from strandline._net.loop_affinity import Home, require_grpc
from strandline._net.tasks import Tasks
from strandline.errors import ClientClosed, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_runtime.runtime import Runtime


class NamedLog:
    """A log whose lines name the client."""

    def __init__(self, log: Any, client_id: str) -> None:
        self._log = log
        self._client_id = client_id

    def __getattr__(self, level: str) -> Callable[..., Any]:
        return partial(getattr(self._log, level), client_id=self._client_id)


class Session:
    """An open connection to a cluster."""

    def __init__(
        self,
        name: str,
        bootstrap: tuple[str, ...],
        runtime: Runtime | None,
        client_id: str | None = None,
    ) -> None:
        if runtime is None:
            require_grpc(name)
            from strandline_runtime.real import client_runtime

            runtime = client_runtime()
        if client_id is not None:
            runtime = replace(runtime, log=cast("Any", NamedLog(runtime.log, client_id)))
        self.runtime = runtime
        self.connections = Connections(runtime, client_id)
        self.tasks = Tasks(f"strandline {name}", self._on_failure)
        self.cluster = Cluster(runtime, self.connections, bootstrap)
        self.on_broken: list[Callable[[ClientClosed], None]] = []
        """Called once if the session ends before it is closed, so that no waiter waits for ever."""
        self._name = name
        self._home = Home(name)
        self._broken: ClientClosed | None = None

    async def open(self, timeout_s: float, other: Callable[[], Session | None]) -> None:
        """Connects. A failed start leaves no connection behind.

        Raises NoBrokerReachable, or ClientClosed if a concurrent call has started the client.
        """
        try:
            await self.tasks.open()
            self.tasks.start(self.cluster.run(), "metadata")
            await self.cluster.check_bootstrap(timeout_s)
            await self.cluster.refresh(timeout_s)
            if other() is not None:
                raise ClientClosed(f"the {self._name} has been started already")
        except BaseException:
            await self.close()
            raise

    def require_own_loop(self) -> None:
        """Raises ClientMisused outside the session's own loop."""
        self._home.require()

    def require(self) -> None:
        """Raises ClientMisused away from the session's home, ClientClosed if it is broken."""
        self._home.require()
        if self._broken is not None:
            raise ClientClosed(str(self._broken)) from self._broken

    @property
    def is_elsewhere(self) -> bool:
        """True in a forked child: the session belongs to the parent, which closes it."""
        return self._home.is_elsewhere

    @property
    def is_broken(self) -> bool:
        return self._broken is not None

    def _on_failure(self, error: BaseException) -> None:
        if self._home.is_elsewhere:
            return
        broken = ClientClosed(f"the {self._name} broke: {describe(error)}; start another one")
        broken.__cause__ = error
        self._broken = broken
        self.runtime.log.error(str(broken))
        self.cluster.end(broken)
        for tell in self.on_broken:
            tell(broken)

    async def close(self) -> None:
        if self._home.is_elsewhere:
            return
        self.cluster.end(ClientClosed(f"the {self._name} was closed"))
        try:
            await self.tasks.close()
        finally:
            await self.connections.close()
