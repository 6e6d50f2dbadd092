"""A transactional producer, as an application writes one: it sends, commits, or aborts.

Now and then another producer takes its id in the middle of a transaction.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline import Producer as Sender
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    FatalTransactionError,
    StrandlineError,
)
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.transactions import LEDGER
from strandline_proof.sim.transactions.ledger import ABORTED, UNKNOWN, Producer

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.transactions.ledger import Attempt
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
DELIVERY_MS: Final = 3000
RETRY_S: Final = 0.2
ROUNDS: Final = (2, 12)
"""Transactions of one producer, least and most."""
RECORDS: Final = (1, 1, 2, 3, 6)
PAUSE_S: Final = (0.0, 0.0, 0.02, 0.1)
"""Time between two records."""
REST_S: Final = (0.0, 0.3)
ABORTS: Final = 0.2
SLEEPS: Final = 0.05
"""Probability that a transaction lasts longer than its timeout."""
USURPED: Final = 0.1
REPEATS: Final = 4
"""Calls of a commit whose answers are lost."""


class Usurped(StrandlineError):
    """The producer has a successor."""


def identity_of(sender: Sender) -> Producer:
    """The identity of a producer that has just started."""
    assert sender._transactions is not None
    # A crash drops it as a killed process would, which warns of no records that waited.
    if sender._watchdog is not None:
        sender._watchdog.detach()
    identity = sender._transactions.state.identity
    assert identity is not None
    return Producer(identity.producer_id, identity.producer_epoch, True)


def opened(world: World, name: str, runtime: Runtime) -> Sender:
    """A transactional producer that is not started yet."""
    transactions = world.topology.transactions
    assert transactions is not None
    return Sender(
        world.topology.bootstrap,
        transactional_id=name,
        transaction_timeout_ms=transactions.timeout_ms,
        linger_ms=runtime.rng.choice((0, 5)),
        delivery_timeout_ms=DELIVERY_MS,
        request_timeout_ms=REQUEST_MS,
        connect_timeout_ms=REQUEST_MS,
        runtime=runtime,
    )


def noted(attempt: Attempt, value: bytes, done: asyncio.Future[Any]) -> None:
    """Notes the offset of an acknowledged record."""
    if not done.cancelled() and done.exception() is None:
        attempt.acknowledged[value] = done.result().offset


class Teller:
    def __init__(self, world: World, name: str, runtime: Runtime) -> None:
        assert world.topology.transactions is not None
        self._partitions = world.topology.transactions.partitions
        self._timeout_s = world.topology.transactions.timeout_ms / 1000
        self._world = world
        self._ledger = world.ledger
        self._name = name
        self._runtime = runtime
        self._rng = runtime.rng

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                async with opened(self._world, self._name, self._runtime) as sender:
                    self._ledger.opened(identity_of(sender))
                    for _ in range(self._rng.randint(*ROUNDS)):
                        if stop.is_set():
                            break
                        await self._transaction(sender)
                        await asyncio.sleep(self._rng.uniform(*REST_S))
            except StrandlineError as error:
                self._ledger.sometimes[f"teller began again: {type(error).__name__}"] += 1
                await asyncio.sleep(RETRY_S)

    async def _transaction(self, sender: Sender) -> None:
        attempt = self._ledger.begin(self._name, identity_of(sender))
        await sender.begin_transaction()
        try:
            await self._send(sender, attempt)
            if self._rng.random() < USURPED:
                await self._usurped(sender, attempt)
            elif self._rng.random() < ABORTS:
                await self._abort(sender, attempt)
            else:
                await self._commit(sender, attempt)
        except AbortableTransactionError:
            await self._abort(sender, attempt)
        except FatalTransactionError:
            self._ledger.ended(attempt, UNKNOWN)
            raise

    async def _send(self, sender: Sender, attempt: Attempt) -> None:
        for _ in range(self._rng.choice(RECORDS)):
            partition = self._rng.randrange(self._partitions)
            value = self._ledger.value(attempt, LEDGER, partition)
            done = await sender.send(LEDGER, value, partition=partition)
            done.add_done_callback(partial(noted, attempt, value))
            await asyncio.sleep(self._rng.choice(PAUSE_S))
        if self._rng.random() < SLEEPS:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * self._timeout_s)

    async def _commit(self, sender: Sender, attempt: Attempt) -> None:
        for _ in range(REPEATS):
            try:
                await sender.commit_transaction()
            except CommitOutcomeUnknown:
                self._ledger.sometimes["commit repeated"] += 1
                continue
            except FatalTransactionError:
                self._ledger.sometimes["teller was fenced at a commit"] += 1
                raise
            self._ledger.committed(attempt)
            return
        self._ledger.ended(attempt, UNKNOWN)
        raise CommitOutcomeUnknown("the application gives up")

    async def _abort(self, sender: Sender, attempt: Attempt) -> None:
        await sender.abort_transaction()
        self._ledger.ended(attempt, ABORTED)

    async def _usurped(self, sender: Sender, attempt: Attempt) -> None:
        """Another producer takes the id; this one goes on as if nothing were."""
        async with opened(self._world, self._name, self._runtime) as successor:
            self._ledger.opened(identity_of(successor))
            try:
                if self._rng.random() < 0.5:
                    await self._send(sender, attempt)
                await sender.commit_transaction()
            except CommitOutcomeUnknown:
                self._ledger.ended(attempt, UNKNOWN)
                raise
            except (AbortableTransactionError, FatalTransactionError):
                self._ledger.sometimes["zombie was fenced"] += 1
                self._ledger.ended(attempt, ABORTED)
            else:
                if attempt.sent:
                    why = f"transaction {attempt.number} of {self._name} was committed after that"
                    self._world.loop.fail(Violation("I-168", why))
            await self._transaction(successor)
        raise Usurped(f"{self._name} was fenced by its successor")


async def run_teller(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    node.process = teller = Teller(world, node.name, runtime)
    await teller.run(stop)
