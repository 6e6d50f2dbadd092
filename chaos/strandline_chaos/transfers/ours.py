"""`python -m strandline_chaos.transfers.ours ROLE ...`: a mover or a reader with our own client.

Other clients have programs with the same arguments and the same lines (`book.py`), as in
`tests/conformance/clients/transfers_confluent.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Final

from strandline import Consumer, Producer, TopicPartition
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    FatalTransactionError,
    StrandlineError,
    TransactionFenced,
    describe,
)
from strandline_chaos.transfers.book import ABORTED, COMMITTED, UNKNOWN
from strandline_chaos.transfers.legs import CorruptLeg, Leg, Mover, decode_leg, partition_of
from strandline_runtime.grpc_experiments import without_event_engine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from strandline_chaos.transfers.legs import Transfer

TIMEOUT_MS: Final = 60_000
"""Longer than any election: a transaction ends by its mover, not by its timeout."""
CALL_MS: Final = 10_000
PATIENCE_S: Final = 60.0
"""The time for which the end of a transaction is asked for again."""
POLL_MS: Final = 500
REOPEN_S: Final = 0.2


class Control:
    """The words that the program reads from its standard input."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._pause = False

    async def listen(self) -> None:
        """Reads until the input ends, which is `stop`."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._hear(line.decode().strip())
        self._hear("stop")

    def _hear(self, word: str) -> None:
        if word == "pause":
            self._pause = True
            self._may_go.clear()
            return
        self._pause = False
        self.is_stopping |= word == "stop"
        self._may_go.set()

    async def pass_gate(self) -> None:
        """Returns at once, or after `go` if the run wants quiescence."""
        if self._pause:
            say("paused")
            await self._may_go.wait()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = party_parser().parse_args(argv)
    asyncio.run(_run(arguments))
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    control = Control()
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(control.listen(), name="standard input")
        await (move if arguments.role == "mover" else read)(arguments, control)
        listening.cancel()


def party_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A party of a run of transfers.")
    parser.add_argument("role", choices=("mover", "reader"))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("partitions", type=int)
    parser.add_argument("accounts", type=int)
    parser.add_argument("name", help="a mover's transactional id")
    parser.add_argument("seed", type=int)
    parser.add_argument("rate", type=float, help="a mover's transfers a second")
    return parser


# Movers.


async def move(arguments: argparse.Namespace, control: Control) -> None:
    """Transfers until `stop`, through as many producers as fail. The last one leaves nothing open:
    the start of a producer ends the transaction of the one before.
    """
    mover = Mover(arguments.name, arguments.accounts, arguments.seed)
    is_settled = False
    while not (control.is_stopping and is_settled):
        try:
            async with Producer(
                arguments.bootstrap,
                transactional_id=arguments.name,
                transaction_timeout_ms=TIMEOUT_MS,
                request_timeout_ms=CALL_MS,
            ) as producer:
                say("ready")
                is_settled = await _transfer(producer, mover, control, arguments)
        except StrandlineError as why:
            say("note", describe(why))
            await asyncio.sleep(REOPEN_S)


async def _transfer(
    producer: Producer, mover: Mover, control: Control, arguments: argparse.Namespace
) -> bool:
    """Returns False once the producer cannot go on, and its last transaction may be open."""
    while True:
        await control.pass_gate()
        if control.is_stopping:
            return True
        transfer, aborts = mover.next()
        say("begun", *transfer)
        try:
            outcome = await _one(producer, transfer, arguments, aborts=aborts)
        except _Lost as lost:
            say(lost.outcome, transfer.name)
            say("note", describe(lost.cause))
            return False
        say(outcome, transfer.name)
        await asyncio.sleep(1 / arguments.rate)


class _Lost(Exception):
    """The producer cannot go on."""

    def __init__(self, outcome: str, cause: StrandlineError) -> None:
        super().__init__(outcome)
        self.outcome, self.cause = outcome, cause


async def _one(
    producer: Producer, transfer: Transfer, arguments: argparse.Namespace, *, aborts: bool
) -> str:
    """One transaction; its outcome. Raises _Lost."""
    try:
        await producer.begin_transaction()
        sent = [
            await producer.send(
                arguments.topic,
                leg.encode(),
                partition=partition_of(leg.account, arguments.partitions),
            )
            for leg in transfer.legs
        ]
        await asyncio.gather(*sent)
    except FatalTransactionError as why:
        raise _Lost(ABORTED, why) from why  # its commit was never asked for
    except StrandlineError as why:
        say("note", describe(why))
        aborts = True
    if aborts:
        await _end(producer.abort_transaction, ABORTED)
        return ABORTED
    try:
        await _end(producer.commit_transaction, UNKNOWN)
    except AbortableTransactionError as why:
        say("note", describe(why))
        await _end(producer.abort_transaction, ABORTED)
        return ABORTED
    return COMMITTED


async def _end(ask: Callable[[], Awaitable[None]], if_lost: str) -> None:
    """Asks until the end is answered. Raises AbortableTransactionError, and _Lost."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            await ask()
            return
        except AbortableTransactionError:
            raise
        except TransactionFenced as why:
            raise _Lost(ABORTED, why) from why  # as the client's documentation says
        except FatalTransactionError as why:
            raise _Lost(if_lost, why) from why
        except StrandlineError as why:
            is_late = asyncio.get_running_loop().time() >= deadline_s
            if is_late or not (isinstance(why, CommitOutcomeUnknown) or if_lost == ABORTED):
                raise _Lost(if_lost, why) from why
            say("note", describe(why))


# Readers.


async def read(arguments: argparse.Namespace, control: Control) -> None:
    """Reads everything committed from the start until `stop`, through as many consumers as fail."""
    at = dict.fromkeys(range(arguments.partitions), 0)
    while not control.is_stopping:
        try:
            async with Consumer(
                bootstrap_servers=arguments.bootstrap,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                request_timeout_ms=CALL_MS,
            ) as consumer:
                await consumer.assign([TopicPartition(arguments.topic, each) for each in at])
                for partition, offset in at.items():
                    consumer.seek(TopicPartition(arguments.topic, partition), offset)
                say("ready")
                while not control.is_stopping:
                    await _poll(consumer, arguments.topic, at)
        except StrandlineError as why:
            say("note", describe(why))
            await asyncio.sleep(REOPEN_S)


async def _poll(consumer: Consumer, topic: str, at: dict[int, int]) -> None:
    found = await consumer.getmany(timeout_ms=POLL_MS)
    for tp, records in found.items():
        for record in records:
            try:
                leg = decode_leg(record.value)
            except CorruptLeg as why:
                say("note", why)
                leg = Leg("corrupt", -1, 0)
            say("leg", tp.partition, record.offset, *leg)
            at[tp.partition] = record.offset + 1
    for partition, before in at.items():
        position = await consumer.position(TopicPartition(topic, partition))
        if position > before or (topic, partition) in found:
            at[partition] = position
            say("at", partition, position)


if __name__ == "__main__":
    without_event_engine()
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
