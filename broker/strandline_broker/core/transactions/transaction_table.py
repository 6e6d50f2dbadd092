"""The transactional ids of a shard by name.

Most of them are at rest for days, and there may be 100,000. Each is kept as a plain tuple of
numbers, which Python's garbage collector does not track. A full collection, which stops the whole
broker, therefore does not visit them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.transactions.transaction import Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATES: Final = {state.value: state for state in TransactionState}
_FIELDS: Final = (
    "producer_id",
    "producer_epoch",
    "timeout_ms",
    "partitions",
    "updated_ms",
    "started_ms",
    "previous_producer_id",
    "next_producer_id",
    "version",
    "last_producer_epoch",
)
_values: Final = attrgetter(*_FIELDS)


class TransactionTable(MutableMapping[str, Transaction]):
    def __init__(self, rows: dict[str, tuple[Any, ...]] | None = None) -> None:
        self._rows: dict[str, tuple[Any, ...]] = {} if rows is None else rows
        """The number of the state, and the fields of `_FIELDS`; a state itself is tracked."""

    def copy(self) -> TransactionTable:
        """Returns what there is now; values do not change."""
        return TransactionTable(dict(self._rows))

    def state_of(self, transactional_id: str) -> TransactionState | None:
        """Returns the state of an id; None if it is not known."""
        row = self._rows.get(transactional_id)
        return None if row is None else _STATES[row[0]]

    def __getitem__(self, transactional_id: str) -> Transaction:
        state, *values = self._rows[transactional_id]
        return Transaction(state=_STATES[state], **dict(zip(_FIELDS, values, strict=True)))

    def __setitem__(self, transactional_id: str, value: Transaction) -> None:
        self._rows[transactional_id] = (value.state.value, *_values(value))

    def __delitem__(self, transactional_id: str) -> None:
        del self._rows[transactional_id]

    def __contains__(self, transactional_id: object) -> bool:
        return transactional_id in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
