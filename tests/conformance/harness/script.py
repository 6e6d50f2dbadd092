"""The script of the smoke test: what each client does, step by step, and what must come of it.

All clients run the script at the same time, so one kill of a broker meets all of them. Topics have
a partition led by each broker, and groups are named so that one broker coordinates them all.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.harness import transactions
from conformance.harness.driver import Driver, UnsupportedError
from conformance.harness.records import (
    BASE_MS,
    CODECS,
    PARTITIONS,
    Record,
    by_partition,
    numbered,
    of_codec,
    same,
)
from conformance.harness.results import Outcome, Result
from conformance.harness.targets import Target, coordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.clients import Client

READ_S = 40.0
QUIET_S = 4.0
STEADY_COUNT = 300
STEADY_PACE_MS = 20
KILL_AFTER_S = 1.5
BACK_TIMEOUT_S = 90.0
LISTED_TIMEOUT_S = 20.0
ALL = list(range(PARTITIONS))
STEPS = (
    "version",
    "create topic",
    *(f"produce {codec}" for codec in CODECS),
    "headers and bytes",
    "classic group",
    "classic group: restart",
    "KIP-848 group",
    "KIP-848 group: restart",
    "offsets by time",
    *transactions.STEPS,
    "leader killed",
    "coordinator killed",
    "restart after the kill",
    "delete records",
    "delete topic",
)


@dataclass
class Run:
    """One client's way through the script."""

    client: Client
    driver: Driver
    helper: Driver
    """A librdkafka that does what the client cannot do, and checks what the client did."""
    group: str
    results: dict[str, Result] = field(default_factory=dict)
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    """The keys of all committed transactions."""

    @property
    def topic(self) -> str:
        return f"smoke-{self.client.name}"

    def step(self, name: str, body: Callable[[], None]) -> None:
        """Runs a step and keeps its result; a failed step does not end the script."""
        started = time.monotonic()
        outcome, detail = Outcome.PASSED, ""
        try:
            body()
        except UnsupportedError as error:
            outcome, detail = Outcome.ABSENT, str(error)
        except Exception as error:  # noqa: BLE001 - a client may answer nonsense
            outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"[:2000]
        self.results[name] = Result(outcome, detail, round(time.monotonic() - started, 1))

    def either(self, op: str, **arguments: Any) -> Any:
        """The operation by the client; by the helper if the client has no such operation."""
        try:
            return self.driver.call(op, **arguments)
        except UnsupportedError:
            self.helper.call(op, **arguments)
            raise

    def until_listed(self, wanted: bool) -> None:
        """Waits until the client sees the topic, or sees it no more."""
        deadline = time.monotonic() + LISTED_TIMEOUT_S
        while (self.topic in self.driver.call("topics")["topics"]) is not wanted:
            assert time.monotonic() < deadline, (
                f"{self.topic} is {'not' if wanted else 'still'} listed"
            )
            time.sleep(0.2)

    def read_all(self, driver: Driver) -> list[dict[str, Any]]:
        answer = driver.call("read", topic=self.topic, partitions=ALL, wait_s=READ_S)
        return list(answer["records"])

    def take(self, count: int, wait_s: float = READ_S) -> list[dict[str, Any]]:
        """Polls until `count` records are there."""
        records = self.driver.call("poll", name="member", count=count, wait_s=wait_s)["records"]
        assert len(records) == count, f"{len(records)} records of {count} in {wait_s} s"
        return list(records)

    def open(self, group: str, protocol: str) -> None:
        self.driver.call("open", name="member", group=group, topic=self.topic, protocol=protocol)

    def close(self) -> None:
        self.driver.call("close", name="member")


def play(clients: list[Client], target: Target) -> dict[str, dict[str, Result]]:
    """Runs the script of every client; returns the results by client and step."""
    for client in clients:
        client.command()  # what two need is installed once
    with ThreadPoolExecutor(len(clients)) as pool:
        runs = list(pool.map(lambda client: _begin(client, target), clients))
        try:
            for phase in (_first, _records, _groups, _times):
                list(pool.map(phase, runs))
            if transacting := [run for run in runs if run.client.transacts]:
                list(pool.map(transactions.play_transactions, transacting))
                _transactions_killed(transacting, target, pool)
            _leader_killed(runs, target, pool)
            _coordinator_killed(runs, target, pool)
            list(pool.map(_last, runs))
        finally:
            for run in runs:
                run.driver.close()
                run.helper.close()
    return {run.client.name: run.results for run in runs}


def _begin(client: Client, target: Target) -> Run:
    from conformance.harness.clients import smoke_clients

    helper = next(each for each in smoke_clients() if each.name == "confluent-kafka")
    driver = client.start(target.bootstrap)
    return Run(client, driver, helper.start(target.bootstrap), f"group-{client.name}")


def _first(run: Run) -> None:
    def versions() -> None:
        found = run.driver.call("version")["version"]
        assert found == run.client.version, f"version {found}, not {run.client.version}"

    def create() -> None:
        run.either("create_topic", topic=run.topic, partitions=PARTITIONS, replication=3)
        run.until_listed(True)

    run.step("version", versions)
    run.step("create topic", create)


def _records(run: Run) -> None:
    for codec in CODECS:
        run.step(f"produce {codec}", partial(_produce, run, codec))
    run.step("headers and bytes", lambda: _compare(run))


def _produce(run: Run, codec: str) -> None:
    records = of_codec(codec)
    answer = run.driver.call("produce", topic=run.topic, records=records, codec=codec)
    if answer["placed"] is not None:
        assert len(answer["placed"]) == len(records)
    run.acknowledged += records


def _compare(run: Run) -> None:
    """The client reads what it wrote, and librdkafka reads the same."""
    timed = run.client.name != "kcat"
    same(run.read_all(run.driver), run.acknowledged, timed=timed)
    same(run.read_all(run.helper), run.acknowledged, timed=timed)


def _groups(run: Run) -> None:
    for protocol, name in (("classic", "classic group"), ("consumer", "KIP-848 group")):
        run.step(name, partial(_group, run, protocol))
        if run.results[name].outcome is Outcome.ABSENT:
            run.results[f"{name}: restart"] = run.results[name]
        else:
            run.step(f"{name}: restart", partial(_again, run, protocol))


def _group(run: Run, protocol: str) -> None:
    """A member reads the first half and commits."""
    run.open(f"{run.group}-{protocol}", protocol)
    try:
        run.take(len(run.acknowledged) // 2)
        run.driver.call("commit", name="member")
    finally:
        run.close()


def _again(run: Run, protocol: str) -> None:
    """Another member continues exactly where the first one committed."""
    first = len(run.acknowledged) // 2
    run.open(f"{run.group}-{protocol}", protocol)
    try:
        rest = run.take(len(run.acknowledged) - first)
        run.driver.call("commit", name="member")
        more = (
            run.driver.call("poll", name="member", count=1, wait_s=QUIET_S)["records"]
            if run.client.name != "kcat"
            else []
        )
        assert more == [], f"{len(more)} records beyond the end"
    finally:
        run.close()
    assert len({(each["partition"], each["offset"]) for each in rest}) == len(rest)


def _times(run: Run) -> None:
    def body() -> None:
        found = {int(each): at for each, at in _offsets_at(run, run.driver, BASE_MS + 50).items()}
        assert found == {
            int(each): at for each, at in _offsets_at(run, run.helper, BASE_MS + 50).items()
        }
        if run.client.name != "kcat":
            _by_timestamp(run, found)

    run.step("offsets by time", body)


def _offsets_at(run: Run, driver: Driver, at: int) -> dict[str, int]:
    answer = driver.call("offsets_for_time", topic=run.topic, partitions=ALL, at=at)
    return dict(answer["offsets"])


def _by_timestamp(run: Run, found: dict[int, int]) -> None:
    """The first record at or after the time, computed from the records themselves."""
    for partition, records in by_partition(run.read_all(run.helper)).items():
        wanted = next(each["offset"] for each in records if each["timestamp"] >= BASE_MS + 50)
        assert found[partition] == wanted, (
            f"partition {partition}: {found[partition]}, not {wanted}"
        )


def _transactions_killed(runs: list[Run], target: Target, pool: ThreadPoolExecutor) -> None:
    """The coordinator of every client's transactional id is killed between two transactions."""
    victim = _of_transactions(target, "killed-0")
    ids = {
        run.client.name: next(
            name
            for name in (f"killed-{run.client.name}-{each}" for each in range(1000))
            if _of_transactions(target, name) == victim
        )
        for run in runs
    }

    def begin(run: Run) -> None:
        transactions.begin_before_kill(run, ids[run.client.name])

    def go_on(run: Run) -> None:
        if run.results[transactions.KILLED].outcome is Outcome.PASSED:
            mine = ids[run.client.name]
            wait = partial(_moved, _of_transactions, target, mine, victim)
            run.step(transactions.KILLED, lambda: transactions.go_on_after_kill(run, mine, wait))

    list(pool.map(lambda run: run.step(transactions.KILLED, lambda: begin(run)), runs))
    target.kill(victim)
    list(pool.map(go_on, runs))
    target.restart(victim)
    _until_in_sync(runs)


def _of_transactions(target: Target, transactional_id: str) -> int:
    return coordinator(target.bootstrap, transactional_id, of_transactions=True)


def _of_group(target: Target, group: str) -> int:
    return coordinator(target.bootstrap, group)


def _leader_killed(runs: list[Run], target: Target, pool: ThreadPoolExecutor) -> None:
    """Every client produces steadily while a broker that leads a partition of each is killed."""
    first = runs[0]
    victim = first.helper.call("leaders", topic=first.topic)["leaders"]["0"]

    def led(run: Run) -> None:
        leaders = run.helper.call("leaders", topic=run.topic)["leaders"]
        assert victim in leaders.values(), f"broker {victim} leads no partition: {leaders}"

    def produce(run: Run) -> None:
        records = numbered("steady", STEADY_COUNT)
        run.driver.call("produce", topic=run.topic, records=records, pace_ms=STEADY_PACE_MS)
        run.acknowledged += records
        timed = run.client.name != "kcat"
        same(run.read_all(run.helper), run.acknowledged, timed=timed)

    list(pool.map(lambda run: run.step("leader killed", lambda: led(run)), runs))
    _with_kill(runs, "leader killed", produce, target, victim, pool)


def _coordinator_killed(runs: list[Run], target: Target, pool: ThreadPoolExecutor) -> None:
    """Every client is a member of a group whose coordinator is killed while records arrive."""
    victim = _of_group(target, "killed-0")
    for run in runs:
        run.group = next(
            name
            for name in (f"killed-{run.client.name}-{each}" for each in range(1000))
            if _of_group(target, name) == victim
        )

    def fed(run: Run) -> None:
        _fed(run, partial(_moved, _of_group, target, run.group, victim))

    list(pool.map(lambda run: run.step("coordinator killed", lambda: _joined(run)), runs))
    _with_kill(runs, "coordinator killed", fed, target, victim, pool)
    list(pool.map(lambda run: run.step("restart after the kill", lambda: _after(run)), runs))


def _with_kill(
    runs: list[Run],
    step: str,
    body: Callable[[Run], None],
    target: Target,
    victim: int,
    pool: ThreadPoolExecutor,
) -> None:
    """Goes on with a step of the runs that began it well, and kills the broker meanwhile.

    A body takes at least `STEADY_COUNT` times `STEADY_PACE_MS`, so the kill is in its midst.
    """
    begun = [run for run in runs if run.results[step].outcome is Outcome.PASSED]
    done = [pool.submit(run.step, step, partial(body, run)) for run in begun]
    time.sleep(KILL_AFTER_S)
    target.kill(victim)
    for each in done:
        each.result()
    target.restart(victim)
    _until_in_sync(runs)


def _moved(find: Callable[[Target, str], int], target: Target, key: str, victim: int) -> None:
    """Waits until another broker coordinates the group or the transactional id."""
    deadline = time.monotonic() + BACK_TIMEOUT_S
    while find(target, key) == victim:
        assert time.monotonic() < deadline, f"broker {victim} still coordinates {key}"
        time.sleep(0.1)


def _joined(run: Run) -> None:
    """A member reads what is there and commits; it stays in the group."""
    run.open(run.group, "classic")
    try:
        if run.client.name != "kcat":  # it commits only when it ends
            run.take(len(run.acknowledged))
            run.driver.call("commit", name="member")
    except BaseException:
        run.close()
        raise


def _fed(run: Run, moved: Callable[[], None]) -> None:
    """A member reads on while the helper produces. No record is missing, and the commit holds."""
    before = len(run.acknowledged) if run.client.name == "kcat" else 0
    try:
        records = numbered("fed", STEADY_COUNT)
        with ThreadPoolExecutor(1) as pool:
            produced = pool.submit(
                run.helper.call,
                "produce",
                topic=run.topic,
                records=records,
                pace_ms=STEADY_PACE_MS,
            )
            got = _distinct(run, before + len(records))
            produced.result()
        run.acknowledged += records
        wanted = {each: [r["key"] for r in part] for each, part in by_partition(records).items()}
        read = {each: [r["key"] for r in part] for each, part in by_partition(got).items()}
        for partition, keys in wanted.items():
            assert read[partition][-len(keys) :] == keys, f"other records in {partition}"
        moved()
        run.driver.call("commit", name="member")
    finally:
        run.close()


def _distinct(run: Run, count: int) -> list[Record]:
    """Polls until `count` places are read, and the member is past all of them.

    A client may lose its session with the coordinator. It then reads again what is not committed,
    and its position goes back: a commit before it has read on would be of that position.
    """
    found: dict[tuple[int, int], Record] = {}
    ends: dict[int, int] = {}
    positions: dict[int, int] = {}
    deadline = time.monotonic() + READ_S + 20
    while len(found) < count or positions != ends:
        wait_s = max(0.1, deadline - time.monotonic())
        for each in run.take(max(1, count - len(found)), wait_s):
            partition, offset = each["partition"], each["offset"]
            found[partition, offset] = each
            positions[partition] = offset
            ends[partition] = max(offset, ends.get(partition, 0))
    return [found[place] for place in sorted(found)]


def _after(run: Run) -> None:
    """What was committed across the kill is where the next member begins."""
    records = numbered("after", 6)
    run.helper.call("produce", topic=run.topic, records=records)
    run.acknowledged += records
    run.open(run.group, "classic")
    try:
        got = run.take(len(records))
    finally:
        run.close()
    keys, wanted = (sorted(each["key"] for each in part) for part in (got, records))
    places = [f"{each['partition']}/{each['offset']} {each['key']}" for each in got]
    assert keys == wanted, f"it began elsewhere: {', '.join(places)}"


def _until_in_sync(runs: list[Run]) -> None:
    deadline = time.monotonic() + BACK_TIMEOUT_S
    for run in runs:
        while True:
            isrs = run.helper.call("leaders", topic=run.topic)["isrs"]
            if isrs and all(len(each) == 3 for each in isrs.values()):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{run.topic} is not in sync: {isrs}")
            time.sleep(0.3)


def _last(run: Run) -> None:
    run.step("delete records", lambda: _delete_records(run))
    run.step("delete topic", lambda: _delete_topic(run))


def _delete_records(run: Run) -> None:
    before = {str(each): 7 for each in ALL}
    absent = None
    try:
        low = run.either("delete_records", topic=run.topic, before=before)["low"]
        assert low == before, f"low watermarks {low}"
    except UnsupportedError as error:
        absent = error
    kept = by_partition(run.read_all(run.driver))
    assert {each: part[0]["offset"] for each, part in kept.items()} == dict.fromkeys(ALL, 7)
    if absent is not None:
        raise absent


def _delete_topic(run: Run) -> None:
    absent = None
    try:
        run.either("delete_topic", topic=run.topic)
    except UnsupportedError as error:
        absent = error
    run.until_listed(False)
    if absent is not None:
        raise absent
