"""A controller whose answers to a broker's forwarded requests a test writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.kafka.cluster.forward import Forward
from strandline_proto.errors import NotController, WireError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

import grpc


class Unreachable(grpc.RpcError):
    """The error of a call that reaches no controller."""


class WrittenController:
    """`answers`: the answers by the names of the calls. A call without one fails."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[Any] = []
        self.limits_s: list[float] = []
        self.metadata = MetadataCache(cluster_id="cluster")
        self.views = AppliedViews(self.metadata)
        self.forward = Forward(self, self.views)

    @property
    def stub(self) -> WrittenController:
        return self

    def failure(self, error: Any) -> WireError:
        return NotController("no controller can be reached")

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, timeout: float) -> Any:  # noqa: ASYNC109 - gRPC's
            self.requests.append(request)
            self.limits_s.append(timeout)
            if name not in self.answers:
                raise Unreachable
            return self.answers[name]

        return call
