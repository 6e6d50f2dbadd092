"""What every part of a consumer stands on: its options, its session, what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._assigned import Assigned
from strandline._delivery import Delivery
from strandline.errors import ClientClosed

if TYPE_CHECKING:
    from strandline._consumer_options import ConsumerOptions
    from strandline._fetcher import Fetcher
    from strandline._group import Group
    from strandline._session import Session


class ConsumerBase:
    def __init__(self, options: ConsumerOptions, max_decompressed_bytes: int) -> None:
        self._options = options
        self._request_timeout_s = options.request_timeout_s
        self._session: Session | None = None
        self._group: Group | None = None
        """While the consumer runs, if it has a group_id."""
        self._delivery = Delivery(
            check_crcs=options.check_crcs, max_decompressed_bytes=max_decompressed_bytes
        )
        self._assigned = Assigned(self._delivery, options.policy)

    def _started(self) -> Fetcher:
        fetcher = self._assigned.fetcher
        if self._session is None or fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        self._session.require()
        return fetcher
