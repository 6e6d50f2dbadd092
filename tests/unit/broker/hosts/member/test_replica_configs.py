"""Which replicas an envelope configures: those of topics that it says something new of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.push_envelope import DynamicConfigs, Envelope, HostedTopic
from strandline_broker.hosts.member.replica_configs import configure_replicas
from support.envelopes import applied, envelope, partition, topic, topic_id

Key = tuple[bytes, int]


class FakePartition:
    def __init__(self, key: Key, configs: Mapping[str, str] | None) -> None:
        self.key = key
        self.topic_configs = configs
        self.given = list[Mapping[str, str] | None]()

    def configure(self, entries: Mapping[str, str] | None) -> None:
        self.given.append(entries)


class Held(dict[Key, FakePartition]):
    """The replicas of a broker; they may not all be gone through."""

    may_be_scanned = False

    def __iter__(self) -> Iterator[Key]:
        assert self.may_be_scanned
        return super().__iter__()

    def values(self) -> Any:
        assert self.may_be_scanned
        return super().values()

    items = values
    keys = values

    def configured(self) -> dict[Key, Mapping[str, str] | None]:
        """By the last envelope."""
        given = {key: p.given[-1] for key, p in super().items() if p.given}
        for each in super().values():
            each.given.clear()
        return given


OLD = {"segment.bytes": "1000"}
NEW = {"segment.bytes": "2000"}


def held(*, topics: int = 2, partitions: int = 3) -> tuple[MetadataCache, Held]:
    """A broker with topics 1 and on, which knows them all."""
    cache = MetadataCache(cluster_id="cluster")
    whole = tuple(
        topic(f"t{t}", t, *map(partition, range(partitions)), configs=OLD)
        for t in range(1, topics + 1)
    )
    applied(cache, envelope(5, full=True, topics=whole))
    keys = [(topic_id(t), p) for t in range(1, topics + 1) for p in range(partitions)]
    return cache, Held({key: FakePartition(key, OLD) for key in keys})


def take(cache: MetadataCache, replicas: Held, pushed: Envelope) -> dict[Key, Any]:
    partitions: Any = replicas
    configure_replicas(cache, partitions, pushed)
    return replicas.configured()


def led(*keys: Key) -> Any:
    return tuple(SimpleNamespace(topic_id=t, partition=p) for t, p in keys)


def hosted(number: int, configs: Mapping[str, str]) -> tuple[HostedTopic, ...]:
    return (HostedTopic(f"t{number}", topic_id(number), configs),)


def keys_of(number: int, indices: Iterable[int]) -> set[Key]:
    return {(topic_id(number), index) for index in indices}


def test_a_changed_topic_configures_its_replicas_and_no_others() -> None:
    cache, replicas = held(topics=3)
    changed = envelope(6, topics=(topic("t2", 2, configs=NEW),))
    given = take(cache, replicas, changed)
    assert given.keys() == keys_of(2, range(3))
    assert all(each == NEW for each in given.values())


def test_an_unchanged_topic_configures_nothing() -> None:
    cache, replicas = held()
    moved = replace(
        envelope(6, topics=(topic("t1", 1, partition(0, leader_epoch=1), configs=OLD),)),
        leader_and_isr=led((topic_id(1), 0)),
        hosted_topics=hosted(1, OLD),
    )
    assert take(cache, replicas, moved) == {}


def test_a_new_topic_configures_its_own_replicas_alone() -> None:
    cache, replicas = held()
    new = (topic_id(7), 0)
    replicas[new] = FakePartition(new, None)
    made = replace(
        envelope(6, topics=(topic("t7", 7, partition(0), configs=NEW),)),
        leader_and_isr=led(new, (topic_id(7), 1)),
        hosted_topics=hosted(7, NEW),
    )
    assert take(cache, replicas, made) == {new: NEW}


def test_a_partition_that_is_added_hears_of_its_topic_with_a_change_or_without() -> None:
    for configs in (OLD, NEW):
        cache, replicas = held()
        added = (topic_id(1), 3)
        replicas[added] = FakePartition(added, None)
        pushed = replace(
            envelope(6, topics=(topic("t1", 1, partition(3), configs=configs),)),
            leader_and_isr=led(added),
            hosted_topics=hosted(1, configs),
        )
        given = take(cache, replicas, pushed)
        assert given[added] == configs
        others = keys_of(1, range(3)) if configs == NEW else set()
        assert given.keys() == {added} | others


def test_what_is_altered_for_brokers_concerns_all() -> None:
    cache, replicas = held()
    replicas.may_be_scanned = True
    altered = envelope(
        6, topics=(topic("t2", 2, configs=NEW),), dynamic_configs=DynamicConfigs(cluster={"a": "b"})
    )
    given = take(cache, replicas, altered)
    assert given.keys() == keys_of(1, range(3)) | keys_of(2, range(3))
    assert {repr(given[key]) for key in keys_of(1, range(3))} == {"None"}
    assert {repr(given[key]) for key in keys_of(2, range(3))} == {repr(NEW)}
