"""One replica of one partition: its log, its gate, its disk, and its one role.

Everything between a check and the act upon it is synchronous. After each await, the role and its
epoch are checked again (I-42, P-38). Role changes and truncations, which must be durable, run on
the disk pool under `gate`: nothing is served, appended or applied meanwhile.

The watermark falls only with a truncation (I-13), which truncates epochs and producers' state too
(I-47, I-58).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_broker.hosts.common.dynamic_config import log_config
from strandline_broker.hosts.common.topic_counters import TopicCounters
from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_proto.errors import KafkaStorageError, WireError
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from strandline_broker.core.replication.follower import Follower
    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.core.replication.replica_condition import RefusedTruncation
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.observers import FetchListener, LogObserver
    from strandline_broker.hosts.replica.role import Role
    from strandline_broker.hosts.replica.suspects import Suspects
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.log.reader import LogRead
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")


class Partition:
    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        dirs: LogDirs,
        upkeep: LogObserver,
        suspects: Suspects,
        log: Log,
        high_watermark: int,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._dirs = dirs
        self._upkeep = upkeep
        self._suspects = suspects
        self.log = log
        self.key = (log.topic_id, log.partition)
        self.name = f"{log.topic}:{log.partition}"
        self.state: PartitionState | None = None
        self.role: Role | None = None
        self.gate = asyncio.Lock()
        self.topic_configs: Mapping[str, str] | None = None
        """The topic's own entries, as the controller last pushed them; None: not yet."""
        self.max_message_bytes = config.current.message_max_bytes
        self.out_of_service: str | None = None
        self.other_history: str | None = None
        self.refused: RefusedTruncation | None = None
        """The cut for which it has stopped to fetch (I-41)."""
        self.healing = False
        """True from the truncation before the damage until the replica holds again what the leader
        calls committed, or may believe to be held.
        """
        self.checkpointed_high_watermark = high_watermark
        """The watermark that the last process stored; above the log's end if records have been lost
        since.
        """
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.counters = TopicCounters()
        self.producers = ProducerStates(config.current.producer_id_expiration_ms)
        self.lacks_from: int | None = None
        """The first offset of the batches that `producers` lacks; None: it lacks none."""
        self.is_reloading = False
        """True while a leader's producer state is loaded again: it appends nothing meanwhile."""
        self.expecting: dict[FetchListener, None] = {}
        """Sessions of followers that know of a leader epoch before we do."""
        log.state.tell(partial(suspects.add, self))
        suspects.add(self)  # the start may have found something

    # Questions about the replica

    @property
    def leader_epoch(self) -> int:
        return -1 if self.state is None else self.state.leader_epoch

    @property
    def leader(self) -> Leader | None:
        return None if self.role is None else self.role.leader

    @property
    def follower(self) -> Follower | None:
        return None if self.role is None else self.role.follower

    @property
    def broker_id(self) -> int:
        """Id of the broker that holds the replica."""
        return self._config.current.node_id

    @property
    def last_stable_offset(self) -> int:
        """The end of what no open transaction can change, up to the high watermark (I-80). A
        transaction may begin below the log's start (I-6), and in batches that were misread (I-154).
        """
        unstable, high_watermark = self.producers.transactions.first_unstable, self.high_watermark
        if self.lacks_from is not None and self.is_unsure_of_transactions:
            unstable = min(unstable, self.lacks_from)
        if unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log.log_start_offset)

    @property
    def is_unsure_of_transactions(self) -> bool:
        """True while batches that `producers` lacks may be sound. A check of their segments soon
        decides that, and the state is loaded again. What certain damage hides stays unknown.
        """
        ranges = self.log.damaged_ranges
        is_certain = len(ranges.entries) > 0 and not ranges.unsure
        return self.lacks_from is not None and not is_certain

    @property
    def unusable(self) -> str | None:
        """The reason why the replica serves nothing; None if it serves."""
        return self.out_of_service or self.other_history or self.log.damaged

    # State changes in every role

    def configure(self, entries: Mapping[str, str] | None) -> None:
        """Use the topic's own entries over the broker's current ones; None: keep the topic's
        entries.
        """
        if entries is not None:
            self.topic_configs = entries
        config = self._config.resolve(self.topic_configs or {})
        self.log.configure(log_config(config))
        self.max_message_bytes = config.max_message_bytes
        self._upkeep.on_configured(self)

    def count_in(self, counters: TopicCounters) -> None:
        """Count in these, which the replicas of a topic share."""
        self.counters = counters

    def put_out_of_service(self, why: str) -> None:
        """Stop serving for the life of this process: the disk has failed (P-24)."""
        self.out_of_service = why
        self._suspects.add(self)

    def refuse_history(self, why: str) -> None:
        """Refuse every role: the log's history differs from the controller's (I-2)."""
        self.other_history = why
        self._suspects.add(self)

    def admit_epoch(self, state: PartitionState) -> None:
        """Raise KafkaStorageError, from here on for every role, if the log holds a later epoch than
        the controller knows: one of the two has another history (I-2).
        """
        latest = self.log.leader_epochs.latest()
        if latest > state.leader_epoch:
            why = (
                f"{self.log.path} holds leader epoch {latest}, and the controller knows of none"
                f" above {state.leader_epoch}: move the directory away, and the replica is copied"
                " again"
            )
            self.refuse_history(why)
            raise KafkaStorageError(why)

    def refuse_truncation(self, refused: RefusedTruncation) -> None:
        """Stop fetching until the refusal is released (I-41)."""
        self.refused = refused
        self._suspects.add(self)

    def release_refusal(self) -> None:
        self.refused = None

    async def heal_from(self, offset: int) -> None:
        """Truncate the log before its damage, and count as healing until `end_healing`."""
        self.healing = True
        self._suspects.add(self)
        if self.role is not None:
            self.role.on_healing()
        await self.truncate(offset)

    def end_healing(self) -> None:
        """End the healing: the replica holds again the lost records that matter."""
        self.healing = False

    def learn_high_watermark(self, to: int) -> None:
        """Take the end that the role knows to be committed; the role ensures that it never falls
        (I-13).
        """
        self.high_watermark = to
        transactions = self.producers.transactions
        if transactions.first_unstable < to:
            transactions.on_committed(to)

    # Roles

    def stop_role(self, why: str) -> None:
        """Stop serving; waiting callers learn the reason."""
        role, self.role = self.role, None
        if role is not None:
            role.end(why)
        self._tell_expecting()

    def take_role(self, role: Role, state: PartitionState) -> None:
        """Take the role that `Roles` made for this state. KafkaStorageError if the disk has failed
        by now.
        """
        if self.out_of_service is not None:
            raise KafkaStorageError(f"{self.name}: {self.out_of_service}")
        self.state = state
        self.role = role
        self._tell_expecting()

    def _tell_expecting(self) -> None:
        expecting, self.expecting = self.expecting, {}
        for listener in expecting:
            listener.on_news(self)

    def update(self, state: PartitionState) -> None:
        """Take a newer partition epoch of the same leader epoch (I-34)."""
        self.state = state
        if self.role is not None:
            self.role.on_state(state)

    # The log

    async def truncate(self, offset: int, *, alarming: bool = False) -> None:
        """Drop everything from `offset` on: log, epochs, producer state together (I-47, I-58)."""
        log = self.log
        if alarming:
            self._runtime.log.warning(
                "truncating below the high watermark",
                partition=self.name,
                to=offset,
                high_watermark=self.high_watermark,
                log_end_offset=log.log_end_offset,
            )
        await self._shorten(partial(log.truncate_to, offset))

    async def restart_at(self, offset: int) -> None:
        """Drop the whole log; the leader's begins past our end (I-45)."""
        await self._shorten(partial(self.log.truncate_fully_and_start_at, offset))

    async def _shorten(self, work: Callable[[], None]) -> None:
        log = self.log
        known, cuts = log.producers is not None, log.state.truncations
        log.keep_producers(None)
        try:
            await self.abandon_cleaning()
            await self.in_disk_pool(work)
        finally:  # a fetch cancelled meanwhile has truncated nevertheless (I-6)
            end = min(self.high_watermark, log.log_end_offset)
            self.high_watermark = max(end, log.log_start_offset)
            if known and log.state.truncations == cuts:  # at its end, or refused (I-60)
                log.keep_producers(self.producers.entries, self.producers.aborted_in)
        if log.producers is None:
            await self.rebuild_producers()

    async def give_up_lost_watermark(self) -> None:
        """Limit the checkpointed watermark to the log's end. New records may take the offsets of
        committed ones that the last process knew and that are lost; the checkpoint must not count
        for them (I-13).
        """
        log, end = self.log, self.log.log_end_offset
        if end < self.checkpointed_high_watermark:
            await self.in_disk_pool(partial(log.limits.add, end))

    async def abandon_cleaning(self) -> None:
        """Return once nothing of a cleaning of this log is left; the caller holds the gate."""
        await self._upkeep.leave_alone(self)

    async def rebuild_producers(self) -> None:
        """Load the producer state, a function of the log's prefix (I-58). The log keeps it in
        snapshots from here on. State that is already known stays, even if the disk now reads
        differently (I-60).
        """
        clock = self._runtime.clock
        producers = await self.in_disk_pool(
            partial(
                load_producers,
                self.log,
                high_watermark=self.high_watermark,
                expiration_ms=self._config.current.producer_id_expiration_ms,
                now_ms=monotonic_ms(clock),
                wall_ms=wall_ms(clock),
            )
        )
        if self.log.producers is not None:
            producers.keep(self.producers)
        self.take_producers(producers)

    async def reload_producers(self) -> None:
        """Load the producer state as `rebuild_producers` does, in any role: a leader appends
        nothing meanwhile.
        """
        self.is_reloading = True
        try:
            await self.rebuild_producers()
        finally:
            self.is_reloading = False

    def take_producers(self, producers: ProducerStates) -> None:
        """Take the producer state at the log's end."""
        self.producers, self.lacks_from = producers, self.log.replay_lacks_from
        producers.transactions.on_committed(self.high_watermark)
        self.log.keep_producers(producers.entries, producers.aborted_in)

    async def in_disk_pool(self, work: Callable[[], T]) -> T:
        """Run blocking work on this replica; the caller holds the gate.

        Raises KafkaStorageError; unless the disk is full, its directory is then out of service
        (P-24).
        """
        assert self.gate.locked(), self.name
        return await self._on_disk(self._dirs.in_disk_pool(self.log, work))

    async def in_disk_group(self, steps: Steps[T]) -> T:
        """The same as `in_disk_pool`, beside the same work of other replicas."""
        assert self.gate.locked(), self.name
        return await self._on_disk(self._dirs.lane(self.log).in_group(steps))

    async def _on_disk(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except OSError as error:
            raise self.refuse_write(error) from error
        except asyncio.CancelledError as cancelled:
            # A disk's refusal counts even if the caller is cancelled (I-99, P-24).
            if isinstance(cancelled.__cause__, OSError):
                self.refuse_write(cancelled.__cause__)
            raise

    def raise_log_start(self, to: int) -> bool:
        """Raise the log start to `to`, which is committed, and notify followers; False if the log
        begins there already.

        It counts in memory from here on; `LogStarts` makes it durable.
        """
        assert to <= self.high_watermark, (self.name, to, self.high_watermark)
        if not self.log.raise_log_start(to):
            return False
        if self.role is not None:
            self.role.on_own_log_start()
        return True

    def refuse_write(self, error: OSError) -> WireError:
        """The error for a failed write: a full disk refuses the batch, any other failure takes the
        directory out of service.

        The log was truncated back to its former end, so nothing of the batch is there.
        """
        where = f"{self.name} at offset {self.log.log_end_offset} on broker {self.broker_id}"
        return self._dirs.refuse_write(self.log, error, where)

    def read_log(
        self,
        start: int,
        *,
        max_bytes: int,
        limit: int,
        checked: bool = False,
        committed: bool = False,
    ) -> LogRead:
        """Read the log. Raises KafkaStorageError for damaged offsets (I-7), and as `refuse_read`
        says. `checked` verifies each batch's CRC, for bytes that are cold. `committed` names the
        aborted transactions too.
        """
        try:
            return self.log.read(
                start, max_bytes=max_bytes, limit=limit, checked=checked, committed=committed
            )
        except OSError as error:
            raise self.refuse_read(error) from error

    def refuse_read(self, error: OSError) -> WireError:
        """The error for a failed read: a disk that cannot be read takes the replica out of
        service.
        """
        if self._dirs.passes(error):
            return KafkaStorageError(f"{self.name}: {error}; try again")
        self.put_out_of_service(str(error))
        self._runtime.log.error("replica out of service", reason=str(error))
        return KafkaStorageError(str(error))

    # News

    def on_flushed(self) -> None:
        self._upkeep.on_flushed(self)
        if self.role is not None:
            self.role.on_durable()
