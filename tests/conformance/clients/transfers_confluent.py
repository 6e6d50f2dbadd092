"""A mover or a reader of `strandline chaos transfers` with confluent-kafka, and so with librdkafka.

It takes the arguments of `strandline_chaos.transfers.ours` and says the same lines. It imports
nothing of ours: its interpreter has confluent-kafka alone.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

CALL_S = 10.0
PATIENCE_S = 60.0
AMOUNT_MAX = 100
ABORTED_SHARE = 0.1
MESSAGES_MAX = 500


class Control:
    """The words that the program reads from its standard input."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._may_go = threading.Event()
        self._may_go.set()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "pause":
                self._may_go.clear()
            else:
                self.is_stopping |= line.strip() == "stop"
                self._may_go.set()
        self.is_stopping = True
        self._may_go.set()

    def pass_gate(self) -> None:
        if not self._may_go.is_set():
            say("paused")
            self._may_go.wait()


class LostError(Exception):
    """The producer cannot go on."""

    def __init__(self, outcome: str, cause: object) -> None:
        super().__init__(f"{cause}")
        self.outcome = outcome


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def move(bootstrap: str, topic: str, partitions: int, accounts: int, name: str) -> None:
    control, rng = Control(), random.Random(f"{name} {sys.argv[7]}")
    pace_s, count, is_settled = 1 / float(sys.argv[8]), 0, False
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0}
    while not (control.is_stopping and is_settled):
        producer = Producer(settings)
        try:
            end(partial(producer.init_transactions, CALL_S), "unknown")
            say("ready")
            is_settled = True
            while True:
                control.pass_gate()
                if control.is_stopping:
                    break
                count += 1
                source, target = rng.sample(range(accounts), 2)
                amount, transfer = rng.randint(1, AMOUNT_MAX), f"{name}-{count}"
                say("begun", transfer, source, target, amount)
                legs = [
                    (source % partitions, f"{transfer} {source} {-amount}"),
                    (target % partitions, f"{transfer} {target} {amount}"),
                ]
                is_settled = False
                try:
                    outcome = one(producer, topic, legs, aborts=rng.random() < ABORTED_SHARE)
                except LostError as lost:
                    say(lost.outcome, transfer)
                    raise
                is_settled = True
                say(outcome, transfer)
                time.sleep(pace_s)
        except LostError as lost:
            say("note", " ".join(str(lost).split()))
            time.sleep(0.2)


def one(producer: Producer, topic: str, legs: list[tuple[int, str]], *, aborts: bool) -> str:
    """One transaction; its outcome. Raises LostError."""
    try:
        producer.begin_transaction()
        for partition, text in legs:
            producer.produce(topic, text.encode(), partition=partition)
            producer.poll(0)
    except KafkaException as error:
        say("note", " ".join(str(error).split()))
        if error.args[0].fatal():
            raise LostError("aborted", error) from error  # its commit was never asked for
        aborts = True
    if not aborts:
        try:
            end(lambda: producer.commit_transaction(CALL_S), "unknown")
        except AbortError as why:
            say("note", " ".join(str(why).split()))
        else:
            return "committed"
    try:
        end(lambda: producer.abort_transaction(CALL_S), "aborted" if aborts else "unknown")
    except AbortError as why:
        raise LostError("aborted" if aborts else "unknown", why) from why
    return "aborted"


class AbortError(Exception):
    """The transaction can only be aborted."""


def end(ask: Callable[[], object], if_lost: str) -> None:
    """Asks until it is answered. Raises AbortError and LostError."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            ask()
            return
        except KafkaException as error:
            why = error.args[0]
            if why.txn_requires_abort():
                raise AbortError(str(error)) from error
            if not why.retriable() or time.monotonic() > deadline:
                raise LostError(if_lost, error) from error
            say("note", " ".join(str(error).split()))


def read(bootstrap: str, topic: str, partitions: int) -> None:
    control = Control()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "transfers-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    say("ready")
    while not control.is_stopping:
        for message in consumer.consume(MESSAGES_MAX, 0.5):
            error, place = message.error(), (message.partition(), message.offset())
            if error is None:
                say("leg", *place, message.value().decode())
                say("at", place[0], place[1] + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                say("at", *place)
            else:
                say("note", " ".join(str(error).split()))
    consumer.close()


def main() -> None:
    role, bootstrap, topic, partitions, accounts, name = sys.argv[1:7]
    if role == "mover":
        move(bootstrap, topic, int(partitions), int(accounts), name)
    else:
        read(bootstrap, topic, int(partitions))


if __name__ == "__main__":
    main()
