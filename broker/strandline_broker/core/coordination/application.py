"""The application of a coordinator's shard: groups today; the runtime knows nothing else of it.

The runtime (`hosts/coordination`) leads, loads, appends, waits for the high watermark and answers.
The application decides, and knows the meaning of commands, records, effects and timers.

Each command has a ticket. A decision's answer goes to its ticket at once, or when the decision's
records are committed; without records, when the last record about `Decision.about` is (I-104).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from strandline_broker.core.coordination.decision import Decision, Entity, Record
    from strandline_proto.errors import WireError
    from strandline_proto.ids import Offset, ProducerId

Command = TypeVar("Command")


class LoggedState(Protocol):
    """The state of a shard: the fold of its log in every process (I-102)."""

    def replay(self, offset: Offset, record: Record) -> None:
        """Applies one record, live or during a load."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Returns the record's key and value as the log has them."""

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Returns a record of the log; None: its type or version is unknown. Raises
        MalformedRecord.
        """

    def entities(self, records: Iterable[Record]) -> set[Entity]:
        """Returns the entities that the records are about."""


@runtime_checkable
class TransactionalState(LoggedState, Protocol):
    """The state of a shard whose partition takes part in producers' transactions. A marker ends the
    open transaction of its producer.
    """

    def replay_transactional(self, offset: Offset, record: Record, producer_id: ProducerId) -> None:
        """Applies one record of the producer's open transaction, live or during a load."""

    def replay_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Applies the marker that ends the producer's transaction, live or during a load."""

    def entities_of(self, producer_id: ProducerId) -> set[Entity]:
        """Returns the entities that the end of the producer's open transaction is about."""


class Application(Protocol[Command]):
    """One shard's application; the runtime calls it, always within the event loop."""

    @property
    def state(self) -> LoggedState:
        """The present state; `dropped` replaces it by an empty one."""

    # A step

    def decide(self, command: Command) -> Decision[Any, Any]:
        """Returns the decision, and changes no state that a record contains."""

    def only_reads(self, command: Command) -> bool:
        """True if the command writes nothing, so that too few replicas in sync do not refuse it."""

    def is_undone(self, command: Command) -> bool:
        """True if a decision about the command changes nothing but by its records."""

    def too_large(self, what: str) -> WireError:
        """Returns the error for a decision that exceeds a batch."""

    def refused(self, command: Command) -> None:
        """Takes note of a command that cannot be written at present."""

    def appended(self, records: Sequence[Record]) -> None:
        """Takes note of records that are in the log now."""

    def carry_out(self, command: Command, effects: Iterable[Any]) -> None:
        """Carries out the effects of the command's decision, within its step."""

    # Timers

    def on_timer(self, key: Hashable, epoch: int) -> Command:
        """Returns the command for a timer that has fired; the runtime tries it until it is
        written.
        """

    # The shard's life

    def loaded(self, took_s: float) -> None:
        """Takes note of the time that a load took."""

    def serves(self) -> None:
        """Starts all timers that the loaded state requires: the shard serves from now on."""

    def dropped(self, error: WireError) -> None:
        """Replaces the state by an empty one, and ends everything that depends on it (I-110)."""
