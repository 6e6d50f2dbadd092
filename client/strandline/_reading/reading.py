"""The state that the calls of a consumer share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._net.arguments import milliseconds
from strandline.errors import ClientClosed, ConfigurationError
from strandline.group_types import Partition as Partition
from strandline.group_types import ToCommit as ToCommit

if TYPE_CHECKING:
    from strandline._consumer.assigned import Assigned
    from strandline._consumer.delivery import Delivery
    from strandline._consumer.fetcher import Fetcher
    from strandline._consumer.options import ConsumerOptions
    from strandline._core.membership import Subscription
    from strandline._groups.group import Group
    from strandline._net.session import Session


class Reading:
    """A consumer's parts, which its constructor makes."""

    _assigned: Assigned
    _delivery: Delivery
    _group: Group | None
    """The group of a running consumer with a group_id; else None."""
    _is_stopping: bool
    _options: ConsumerOptions
    _session: Session | None
    _wanted: tuple[Subscription, object] | None
    """The subscription and listener given before the start."""

    @property
    def _request_timeout_s(self) -> float:
        return self._options.request_timeout_s

    def _within(self, timeout_ms: float | None) -> float:
        """The time limit of one call in seconds: its own, or that of the consumer."""
        if timeout_ms is None:
            return self._options.request_timeout_s
        return milliseconds("timeout_ms", timeout_ms) / 1000

    def _started(self) -> Fetcher:
        fetcher = self._assigned.fetcher
        if self._session is None or fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        self._session.require()
        return fetcher

    def _grouped(self, what: str) -> Group:
        if self._options.group_id is None:
            raise ConfigurationError(f"{what} needs a group: give the consumer a group_id")
        self._started()
        assert self._group is not None
        return self._group
