"""What every part of a consumer stands on: its options, its session, what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._blocking.read_ahead import Lending
from strandline._consumer.assigned import Assigned
from strandline._consumer.delivery import Delivery
from strandline.errors import ClientClosed

if TYPE_CHECKING:
    from strandline._consumer.fetcher import Fetcher
    from strandline._consumer.options import ConsumerOptions
    from strandline._core.commit_state import CommitOffset
    from strandline._core.position import Position
    from strandline._groups.group import Group
    from strandline._net.session import Session


class ConsumerBase:
    def __init__(self, options: ConsumerOptions, max_decompressed_bytes: int) -> None:
        self._options = options
        self._request_timeout_s = options.request_timeout_s
        self._session: Session | None = None
        self._group: Group | None = None
        """While the consumer runs, if it has a group_id."""
        self._is_stopping = False
        self._delivery = Delivery(
            check_crcs=options.check_crcs, max_decompressed_bytes=max_decompressed_bytes
        )
        self._lending = Lending(self._delivery, self._on_step)
        self._assigned = Assigned(self._delivery, self._lending, options.policy)

    def _on_step(self, position: Position, at: CommitOffset) -> None:
        if self._group is not None:
            self._group.on_step(position, at)

    def _started(self) -> Fetcher:
        fetcher = self._assigned.fetcher
        if self._session is None or fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        self._session.require()
        return fetcher
