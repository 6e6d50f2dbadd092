"""One fetch session (KIP-227): what the broker remembers of a stream, so that a request names only
what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from strandline._core.cluster_view import PartitionKey


class FetchTarget(NamedTuple):
    """Where to read one partition from. The epochs let the broker refuse or report divergence."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchChanges(NamedTuple):
    """What the next request of the session says."""

    session_id: int
    session_epoch: int
    changed: list[tuple[PartitionKey, FetchTarget]]
    forgotten: list[PartitionKey]


class FetchSession:
    """The state of one Fetch stream; a new stream is a new session."""

    def __init__(self) -> None:
        self._session_id = 0
        self._session_epoch = 0
        self._known: dict[PartitionKey, FetchTarget] = {}

    def next_request(self, wanted: dict[PartitionKey, FetchTarget]) -> FetchChanges:
        """The difference between `wanted` and what the broker has been told."""
        changed = [
            (key, target) for key, target in wanted.items() if self._known.get(key) != target
        ]
        forgotten = [key for key in self._known if key not in wanted]
        self._known = dict(wanted)
        changes = FetchChanges(self._session_id, self._session_epoch, changed, forgotten)
        self._session_epoch += 1
        return changes

    def on_answer(self, session_id: int) -> None:
        self._session_id = session_id
