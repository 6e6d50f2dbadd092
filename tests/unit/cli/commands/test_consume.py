"""`strandline consume`: which records of which topics its options print."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import strandline
from strandline import ConsumerRecord, OffsetAndTimestamp, TopicPartition
from strandline_cli.main import run
from strandline_cli.records import record_printer

TOPICS = {"orders": 2, "orders-old": 1, "clicks": 1}
END = 4


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    """A record a second, each of the leader epoch 5."""
    return ConsumerRecord(
        partition.topic, partition.partition, offset, offset * 1000, None, b"v", (), 5
    )


class Cluster:
    """Topics with the offsets 0 to 3 in each partition, as a consumer and an administrator."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.groups: list[dict[str, Any]] = []

    def __call__(self, *topics: str, group_id: str | None = None, **_: Any) -> "Cluster":
        self.positions = {p: 0 for topic in topics for p in self._all(topic)}
        return self

    def _all(self, topic: str) -> Iterator[TopicPartition]:
        return (TopicPartition(topic, number) for number in range(TOPICS[topic]))

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Holds nothing open."""

    async def describe_topics(self) -> dict[str, None]:
        return dict.fromkeys(TOPICS)

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        return frozenset(range(TOPICS[topic]))

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions = dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, END)

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, 0)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> Any:
        return {
            p: OffsetAndTimestamp(-(-at // 1000), at, 5) if at <= (END - 1) * 1000 else None
            for p, at in times.items()
        }

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def pause(self, *_: TopicPartition) -> None:
        """A paused partition is at its end here."""

    async def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    async def getmany(self, *, timeout_ms: float, max_records: int) -> Any:
        assert timeout_ms > 0
        assert max_records > 0
        found = {p: [record(p, n) for n in range(at, END)] for p, at in self.positions.items()}
        self.positions = dict.fromkeys(self.positions, END)
        return {p: records for p, records in found.items() if records}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(strandline, "Consumer", cluster)
    monkeypatch.setattr(strandline, "Admin", lambda *_, **__: cluster)
    return cluster


@pytest.fixture
def printed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(
        record_printer, "write_out", lambda _, data: lines.extend(data.decode().splitlines())
    )
    return lines


def consume(*arguments: object) -> int:
    return run(["consume", *map(str, arguments), "--bootstrap", "a:1"])


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (("clicks", "--from-beginning"), ["clicks:0@0", "clicks:0@1", "clicks:0@2", "clicks:0@3"]),
        (("orders:1", "-o", -1), ["orders:1@3"]),
        (("orders", "-p", 1, "-o", 3), ["orders:1@3"]),
        (("orders:0-1", "clicks", "-o", -1), ["clicks:0@3", "orders:0@3", "orders:1@3"]),
        (("orders", "clicks", "-o", -1), ["clicks:0@3", "orders:0@3", "orders:1@3"]),
        (("--pattern", "orders.*", "-o", -1), ["orders-old:0@3", "orders:0@3", "orders:1@3"]),
        (("--pattern", "orders", "-o", -1), ["orders:0@3", "orders:1@3"]),
        (("clicks", "--from-time", "1970-01-01T00:00:02"), ["clicks:0@2", "clicks:0@3"]),
        (("clicks", "--from-time", "1970-01-01T00:00:01.500"), ["clicks:0@2", "clicks:0@3"]),
        (("clicks", "--from-time", "1970-01-01T01:00:03+01:00"), ["clicks:0@3"]),
        (("clicks", "--from-time", "2070-01-01"), []),
        (("clicks", "--from-time", "P30000D"), [f"clicks:0@{n}" for n in range(4)]),
        (("clicks", "--from-time", "PT1H"), []),
    ],
)
def test_the_start_and_the_topics_decide_what_is_printed(
    printed: list[str], arguments: tuple[object, ...], places: list[str]
) -> None:
    assert consume(*arguments, "--exit-at-end", "-f", r"%t:%p@%o\n") == 0
    assert sorted(printed) == places


def test_each_record_has_the_epoch_of_its_leader(printed: list[str]) -> None:
    assert consume("clicks", "-o", -1, "-e", "-f", r"%o in %e\n") == 0
    assert consume("clicks", "-o", -1, "-e", "--format", "json") == 0
    assert printed[0] == "3 in 5"
    assert '"leader_epoch": 5' in printed[1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name topics, as in `strandline consume orders`, or give --pattern"),
        (("orders", "--pattern", "o"), "name topics, .* or give --pattern"),
        (("--pattern", "*"), "is no regular expression .*`orders.*` matches"),
        (("--pattern", "(?=a)"), "is no regular expression"),
        (("orders", "clicks", "-p", 1), "--partition goes with one topic: .* TOPIC:P"),
        (("orders:0", "-p", 1), "--partition goes with one topic"),
        (("orders:x",), "'x' is not a partition"),
        (("orders", "clicks", "-o", 1), "--offset 1 is an offset of one topic"),
        (("--pattern", "o", "-o", 1), "--offset 1 is an offset of one topic"),
        (("orders", "--from-beginning", "-o", 1), "--from-beginning and --offset all say where"),
        (("orders", "--from-time", "P1D", "-o", 1), "--offset and --from-time all say where"),
        (("orders", "--from-time", "yesterday"), "--from-time 'yesterday' is no time"),
        (("orders", "--from-time", "P1"), "--from-time 'P1' is no duration"),
        (("orders", "-g", "g", "--from-time", "P1D"), "`strandline group reset` sets"),
        (("orders:0", "-g", "g"), "`strandline group reset` sets"),
        (("orders", "-g", "g", "-o", 0), "`strandline group reset` sets"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], why: str
) -> None:
    assert consume(*arguments) == 2
    assert re.search(why, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--pattern", "orde"), "no topic matches the pattern 'orde', which must match a whole"),
        (("orders:7",), "topic 'orders' has partitions 0 to 1, not 7"),
        (("clicks:0", "-o", 9), "offset 9 is past the end of clicks:0, which is 4"),
    ],
)
def test_what_the_cluster_does_not_have_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], why: str
) -> None:
    assert consume(*arguments, "-e") == 1
    assert why in capsys.readouterr().err


def test_a_group_subscribes_to_the_pattern(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed: list[dict[str, Any]] = []

    def subscribe(**given: Any) -> None:
        subscribed.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "subscribe", subscribe, raising=False)
    assert consume("--pattern", "orders.*", "-g", "g") == 130
    assert consume("orders", "clicks", "-g", "g") == 130
    assert [given.get("pattern") for given in subscribed] == ["orders.*", None]
    assert [given.get("topics") for given in subscribed] == [None, ["orders", "clicks"]]
