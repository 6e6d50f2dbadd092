"""The transactional steps of the script: what each client writes, and what a reader may see.

A client waits for what it did to be seen, never for a time: an answer to EndTxn says that the
transaction is decided, and its markers follow.
"""

from __future__ import annotations

import time
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from conformance.harness.driver import DriverError
from conformance.harness.records import PARTITIONS, Record, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.driver import Driver
    from conformance.harness.script import Run

COMMITTED, ABORTED, OFFSETS, FENCED, KILLED = STEPS = (
    "transaction committed",
    "transaction aborted",
    "offsets in a transaction",
    "producer fenced",
    "transactions: coordinator killed",
)
DROPPING = ("kafka-python",)
"""Clients that drop a request if the coordinator refuses the connection, and wait for its answer.

They go on with a new producer, once another broker coordinates the id.
"""
SEEN_S = 40.0
POLLED = 6
NONE_COMMITTED = -1001
"""What librdkafka shows for a partition without a committed offset."""
FENCED_WORDS = ("fenced", "epoch", "newer instance")


def topic_of(run: Run) -> str:
    return f"transactions-{run.client.name}"


def play_transactions(run: Run) -> None:
    """Every transactional step but the one that needs a kill."""
    _create(run)
    run.step(COMMITTED, lambda: _committed(run))
    run.step(ABORTED, lambda: _aborted(run))
    run.step(OFFSETS, lambda: _offsets(run))
    run.step(FENCED, lambda: _fenced(run))


def _create(run: Run) -> None:
    """The topic is there once all its replicas are in sync: its leaders know it."""
    topic = topic_of(run)
    run.helper.call("create_topic", topic=topic, partitions=PARTITIONS, replication=3)
    deadline = time.monotonic() + SEEN_S
    while True:
        isrs = run.helper.call("leaders", topic=topic)["isrs"]
        if len(isrs) == PARTITIONS and all(len(each) == 3 for each in isrs.values()):
            return
        assert time.monotonic() < deadline, f"{topic} is not in sync: {isrs}"
        time.sleep(0.05)


def _committed(run: Run) -> None:
    """Records of an open transaction are there for read_uncommitted only, until its commit."""
    run.driver.call("tx_open", name="first", transactional_id=f"id-{run.client.name}")
    keys = _send(run, "first", "committed")
    _until(run, run.helper, keys, committed=False)
    assert _read(run, run.driver, committed=True) == [], "an open transaction is read"
    run.driver.call("tx_end", name="first", commit=True)
    run.decided += keys
    _until(run, run.driver, run.decided, committed=True)
    _until(run, run.helper, run.decided, committed=True)


def _aborted(run: Run) -> None:
    """Aborted records are there for read_uncommitted only."""
    before = sorted(run.decided)
    keys = _send(run, "first", "aborted")
    _until(run, run.helper, keys, committed=False)
    run.driver.call("tx_end", name="first", commit=False)
    # The next transaction ends behind the aborted one: a reader that shows it has passed both.
    run.decided += _transaction(run, "first", "behind")
    _until(run, run.driver, run.decided, committed=True)
    _until(run, run.helper, run.decided, committed=True)
    assert set(before) <= set(run.decided)
    assert sorted(_read(run, run.driver, committed=False)) == sorted([*run.decided, *keys])


def _offsets(run: Run) -> None:
    """The offsets of an aborted transaction are not committed, those of a committed one are."""
    group = f"in-transactions-{run.client.name}"
    run.driver.call("open", name="polling", group=group, topic=run.topic, protocol="classic")
    try:
        if run.client.name != "kcat":
            polled = run.driver.call("poll", name="polling", count=POLLED, wait_s=SEEN_S)
            assert len(polled["records"]) == POLLED, f"{len(polled['records'])} records"
        for commit in (False, True):
            keys = _send(run, "first", f"offsets-{commit}") if run.client.name != "kcat" else []
            run.driver.call("tx_offsets", name="first", member="polling")
            run.driver.call("tx_end", name="first", commit=commit)
            places = _places(run, group)
            if commit:
                run.decided += keys
                assert sum(places) == POLLED, f"committed offsets {places}"
            else:
                assert places == [], f"an aborted transaction committed offsets {places}"
    finally:
        run.driver.call("close", name="polling")


def _fenced(run: Run) -> None:
    """A second producer with the same id ends the first one's transaction, and the first."""
    lost = _send(run, "first", "lost")
    _until(run, run.helper, lost, committed=False)
    run.driver.call("tx_open", name="second", transactional_id=f"id-{run.client.name}")
    run.decided += _transaction(run, "second", "successor")
    try:
        run.driver.call("tx_end", name="first", commit=True)
    except DriverError as error:
        said = str(error)
        assert any(word in said.lower() for word in FENCED_WORDS), f"not fenced: {said}"
    else:
        raise AssertionError("the first producer committed after the second one began")
    _until(run, run.driver, run.decided, committed=True)
    _until(run, run.helper, run.decided, committed=True)
    run.driver.call("tx_close", name="first")
    run.driver.call("tx_close", name="second")


def begin_before_kill(run: Run, transactional_id: str) -> None:
    """A producer commits through the coordinator that is killed next."""
    run.driver.call("tx_open", name="surviving", transactional_id=transactional_id)
    run.decided += _transaction(run, "surviving", "before-the-kill")


def go_on_after_kill(run: Run, transactional_id: str, moved: Callable[[], None]) -> None:
    """The same producer commits and aborts through the next coordinator."""
    if run.client.name in DROPPING:
        moved()
        run.driver.call("tx_close", name="surviving")
        run.driver.call("tx_open", name="surviving", transactional_id=transactional_id)
    run.decided += _transaction(run, "surviving", "after-the-kill")
    _transaction(run, "surviving", "given-up", commit=False)
    run.decided += _transaction(run, "surviving", "at-last")
    run.driver.call("tx_close", name="surviving")
    _until(run, run.driver, run.decided, committed=True)
    _until(run, run.helper, run.decided, committed=True)


def _transaction(run: Run, name: str, text: str, *, commit: bool = True) -> list[str]:
    keys = _send(run, name, text)
    if not commit:
        _until(run, run.helper, keys, committed=False)
    run.driver.call("tx_end", name=name, commit=commit)
    return keys


def _send(run: Run, name: str, text: str) -> list[str]:
    """Begins a transaction with a record or two of each partition; returns their keys.

    A process of kcat writes to one partition.
    """
    records = numbered(text, 2 * PARTITIONS)
    if run.client.name == "kcat":
        records = [each for each in records if each["partition"] == 0]
    run.driver.call("tx_send", name=name, topic=topic_of(run), records=records)
    return _keys(records)


def _read(run: Run, driver: Driver, *, committed: bool) -> list[str]:
    """The keys that a reader sees up to its end as it is now."""
    answer = driver.call(
        "read",
        topic=topic_of(run),
        partitions=list(range(PARTITIONS)),
        wait_s=SEEN_S,
        committed=committed,
    )
    return _keys(answer["records"])


def _until(run: Run, driver: Driver, keys: list[str], *, committed: bool) -> None:
    """Reads until these keys are there: all of them and no others if committed."""
    deadline = time.monotonic() + SEEN_S
    while True:
        found = _read(run, driver, committed=committed)
        if set(keys) <= set(found):
            assert not committed or sorted(found) == sorted(keys), (
                f"{driver.name} reads {sorted(found)}, not {sorted(keys)}"
            )
            return
        missing = sorted(set(keys) - set(found))
        assert time.monotonic() < deadline, f"{driver.name} does not read {missing}"
        time.sleep(0.05)


def _places(run: Run, group: str) -> list[int]:
    """The committed offsets of the group, asked by a client that waits for pending ones."""
    answer: dict[str, Any] = run.helper.call(
        "committed", group=group, topic=run.topic, partitions=list(range(PARTITIONS))
    )
    return [offset for offset in answer["offsets"].values() if offset != NONE_COMMITTED]


def _keys(records: list[Record]) -> list[str]:
    return [b64decode(each["key"]).decode() for each in records]
