"""One fetch session (KIP-227): the broker stores a stream's partitions, so that a request names
only the changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from strandline._core.cluster_view import PartitionKey


class FetchTarget(NamedTuple):
    """Offset and epochs of one partition to fetch.

    With the epochs, the broker can refuse the fetch or report divergence.
    """

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchChanges(NamedTuple):
    """The changes in the next request of the session."""

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
        """Returns the difference between `wanted` and the last request."""
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
