"""The transactions' coordinator of one broker: the application of the shards of
`__transaction_state`.

A broker imports the code of transactions with its first shard.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import TRANSACTION_STATE
from strandline_broker.core.transactions.transactional_ids import check_transactional_id
from strandline_broker.hosts.coordination.registry import Shards
from strandline_broker.hosts.coordination.shard_code import ShardCode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.shard_context import LoadSettings
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.transactions.transaction_context import (
        MarkerSender,
        NewProducerIds,
        TransactionContext,
    )
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_runtime.runtime import Clock, Runtime

LATE_S: Final = 0.25
"""A busy loop is late by less."""
IDS_AT_ONCE: Final = 1_000
"""Ids that a sweep looks at between two turns of other work."""


def _import_shards() -> None:
    import strandline_broker.hosts.transactions.transaction_context
    import strandline_broker.hosts.transactions.transaction_shard  # noqa: F401


CODE: Final = ShardCode(_import_shards)


def transaction_shards(
    runtime: Runtime,
    config: BrokerConfig,
    metadata: MetadataCache,
    is_sure: Callable[[], bool],
    producer_ids: NewProducerIds,
    sender: Callable[[], MarkerSender],
) -> Shards[TransactionShard]:
    """Returns the registry of the transactions' shards. `is_sure`: no other broker leads because
    the controller took this one for dead. `sender` returns the sender of markers; it is called
    with the first shard.
    """
    coordinator = TransactionCoordinator(
        runtime.clock, config, metadata, is_sure, producer_ids, sender
    )
    return Shards(runtime, config.node_id, metadata, coordinator)


class TransactionCoordinator:
    """A `Coordinator` of the registry."""

    topic = TRANSACTION_STATE
    noun = "transactional id"
    code = CODE

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataCache,
        is_sure: Callable[[], bool],
        producer_ids: NewProducerIds,
        sender: Callable[[], MarkerSender],
    ) -> None:
        self._clock = clock
        self._config = config
        self._metadata = metadata
        self._is_sure = is_sure
        self._producer_ids = producer_ids
        self._sender = sender
        self._context: TransactionContext | None = None
        self.shards: Callable[[], list[TransactionShard]] = list

    def check_name(self, name: str) -> None:
        """Raises InvalidRequest."""
        check_transactional_id(name)

    def loads(self) -> LoadSettings:
        """Returns the configuration of a load of `__transaction_state`."""
        from strandline_broker.hosts.coordination.shard_context import LoadSettings

        config = self._config
        return LoadSettings(
            config.transaction_state_log_load_buffer_size,
            config.transaction_state_log_load_skip_records,
            "transaction.state.log.load.skip.records",
        )

    def new(self, shard: ShardHost[TransactionShard]) -> TransactionShard:
        """Returns the transactions of a new shard."""
        from strandline_broker.hosts.transactions.transaction_context import TransactionContext
        from strandline_broker.hosts.transactions.transaction_shard import TransactionShard

        if self._context is None:
            self._context = TransactionContext(
                shard.context,
                self._config,
                self._metadata,
                self._is_sure,
                self.shards,
                self._producer_ids,
                self._sender(),
            )
        return TransactionShard(self._context, shard)

    def topics_changed(self) -> None:
        """Does nothing: the sender of markers looks at the metadata itself."""

    def tasks(self) -> Iterable[tuple[str, Coroutine[None, None, None]]]:
        """Returns the aborts at the timeout, and the expiry of unused ids."""
        return (
            ("transaction-timeouts", self._abort_timed_out()),
            ("transactional-id-expiry", self._expire()),
        )

    async def _abort_timed_out(self) -> None:
        """Aborts transactions past their timeout. After a pause of the whole broker, one sweep is
        left out: what waits in the sockets is read first, and may be their ends (P-146).
        """
        name = "transaction_abort_timed_out_transaction_cleanup_interval_ms"
        interval_s = getattr(self._config, name) / 1000
        left_out = False
        while True:
            due_s = self._clock.monotonic() + interval_s
            await asyncio.sleep(interval_s)
            is_late = self._clock.monotonic() - due_s > LATE_S
            left_out = is_late and not left_out
            if left_out:
                continue
            have_ids = [shard.abort_timed_out() for shard in self.shards()]
            if not all(have_ids):
                await self._producer_ids.have_some()

    async def _expire(self) -> None:
        """Removes ids that were not used for long."""
        name = "transaction_remove_expired_transaction_cleanup_interval_ms"
        while True:
            await asyncio.sleep(getattr(self._config, name) / 1000)
            for shard in self.shards():
                ids = list(shard.transactions.table)
                for first in range(0, len(ids), IDS_AT_ONCE):
                    shard.expire(ids[first : first + IDS_AT_ONCE])
                    await asyncio.sleep(0)
