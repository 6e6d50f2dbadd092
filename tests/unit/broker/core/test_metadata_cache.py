"""A broker's view of the cluster: which envelopes it takes, and what they make of the view."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from strandline_broker.core.metadata_cache import NOTHING_APPLIED, MetadataCache
from strandline_broker.core.push_envelope import Envelope
from strandline_proto.errors import (
    InconsistentClusterId,
    InvalidUpdateVersion,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    WireError,
)
from strandline_proto.ids import BrokerId, ControllerEpoch, MetadataOffset
from support.envelopes import (
    MY_EPOCH,
    applied,
    envelope,
    live_broker,
    partition,
    topic,
    topic_id,
)


def cache_at(offset: int, **content: object) -> MetadataCache:
    cache = MetadataCache(cluster_id="cluster")
    applied(cache, envelope(offset, full=True, **content))  # type: ignore[arg-type]
    return cache


def verdict(cache: MetadataCache, pushed: Envelope) -> type[WireError] | None:
    error = cache.check(pushed, broker_epoch=MY_EPOCH)
    return None if error is None else type(error)


def test_nothing_but_a_snapshot_is_taken_first() -> None:
    cache = MetadataCache(cluster_id="cluster")
    assert not cache.has_snapshot
    assert verdict(cache, envelope(5, prev=4)) is InvalidUpdateVersion
    # An envelope that claims to follow "nothing" is no snapshot either.
    assert verdict(cache, envelope(0, prev=-1)) is InvalidUpdateVersion
    assert verdict(cache, envelope(5, full=True)) is None


def test_an_envelope_is_taken_only_if_it_follows_what_was_applied() -> None:
    cache = cache_at(5)
    assert verdict(cache, envelope(6, prev=5)) is None
    assert verdict(cache, envelope(9, prev=5)) is None
    assert verdict(cache, envelope(7, prev=6)) is InvalidUpdateVersion
    assert verdict(cache, envelope(6, prev=4)) is InvalidUpdateVersion
    assert verdict(cache, envelope(5, prev=5)) is InvalidUpdateVersion


def test_a_snapshot_is_taken_again_at_the_applied_offset_but_not_below_it() -> None:
    """P-79: a requested snapshot may be of the very offset that is applied."""
    cache = cache_at(5)
    assert verdict(cache, envelope(5, full=True)) is None
    assert verdict(cache, envelope(8, full=True)) is None
    assert verdict(cache, envelope(4, full=True)) is InvalidUpdateVersion


def test_a_push_of_an_ended_controller_epoch_is_refused() -> None:
    cache = cache_at(5, controller_epoch=3)
    assert verdict(cache, envelope(6, controller_epoch=2)) is StaleControllerEpoch
    assert verdict(cache, envelope(6, full=True, controller_epoch=2)) is StaleControllerEpoch
    assert verdict(cache, envelope(6, controller_epoch=3)) is None
    assert verdict(cache, envelope(6, controller_epoch=4)) is None


def test_a_push_to_another_incarnation_of_this_broker_is_refused() -> None:
    cache = cache_at(5)
    assert verdict(cache, envelope(6, broker_epoch=MY_EPOCH - 1)) is StaleBrokerEpoch
    assert verdict(cache, envelope(6, broker_epoch=MY_EPOCH + 1)) is StaleBrokerEpoch


def test_a_push_from_another_cluster_or_another_store_is_refused() -> None:
    cache = cache_at(5)
    assert verdict(cache, envelope(6, cluster_id="other")) is InconsistentClusterId
    assert verdict(cache, envelope(6, store_id="other")) is InconsistentClusterId


def test_what_the_data_directory_remembers_unmasks_a_restored_controller() -> None:
    """P-76: the directory has applied more of the log than the controller has."""
    cache = MetadataCache(
        cluster_id="cluster",
        store_id="store",
        known_controller_epoch=ControllerEpoch(4),
        known_offset=MetadataOffset(50),
    )
    assert (cache.highest_offset, cache.applied_offset) == (50, NOTHING_APPLIED)
    assert verdict(cache, envelope(49, full=True, controller_epoch=5)) is StaleControllerEpoch
    assert verdict(cache, envelope(60, full=True, controller_epoch=3)) is StaleControllerEpoch
    assert (
        verdict(cache, envelope(60, full=True, controller_epoch=5, store_id="new"))
        is InconsistentClusterId
    )
    assert verdict(cache, envelope(50, full=True, controller_epoch=5)) is None


def test_a_copy_of_the_store_that_went_on_by_itself_is_unmasked_by_its_epochs() -> None:
    """P-76: it reaches as far as this broker has applied, with other records."""
    known = {"store_id": "store", "known_controller_epoch": ControllerEpoch(4)}
    cache = MetadataCache(known_offset=MetadataOffset(50), **known)  # type: ignore[arg-type]

    def refused(*starts: tuple[int, int]) -> bool:
        typed = tuple((MetadataOffset(o), ControllerEpoch(e)) for o, e in starts)
        pushed = replace(envelope(60, full=True, controller_epoch=6), epoch_starts=typed)
        return verdict(cache, pushed) is StaleControllerEpoch

    assert not refused((0, 1), (30, 4), (51, 6))
    assert refused((0, 1), (30, 4), (50, 6))
    assert refused((0, 3), (51, 5))
    assert refused((50, 5))
    assert not refused((51, 5))
    assert refused((51, 4))
    applied(cache, envelope(55, full=True, controller_epoch=5))
    assert not refused((30, 4), (52, 5), (56, 6))
    assert refused((30, 4), (52, 6))


def test_a_refused_envelope_leaves_the_view_as_it_was() -> None:
    cache = cache_at(5, live_brokers=(live_broker(1),))
    before = cache.view
    cache.check(envelope(9, prev=8, live_brokers=(live_broker(2),)), broker_epoch=MY_EPOCH)
    assert cache.view is before


def test_a_prepared_view_is_not_seen_before_it_is_published() -> None:
    cache = cache_at(5)
    pushed = envelope(6, topics=(topic("orders", 1, partition(0)),))
    view = cache.prepare(pushed)
    assert cache.view.topic(topic_id(1)) is None
    cache.publish(view, store_id="store")
    assert cache.view.topic(topic_id(1)) is not None
    assert cache.view.partition(topic_id(1), 0) is not None
    assert cache.view.partition(topic_id(1), 1) is None
    assert cache.applied_offset == 6


def test_a_published_view_never_changes() -> None:
    cache = cache_at(5, topics=(topic("orders", 1, partition(0)),))
    held = cache.view
    applied(cache, envelope(6, topics=(topic("orders", 1, partition(0, leader_epoch=1)),)))
    known = held.partition(topic_id(1), 0)
    assert known is not None
    assert known.leader_epoch == 0
    with pytest.raises(TypeError):
        held.topics_by_id[topic_id(2)] = held.topics_by_id[topic_id(1)]  # type: ignore[index]


def test_an_increment_changes_only_what_it_names() -> None:
    cache = cache_at(
        5,
        topics=(topic("a", 1, partition(0), partition(1)), topic("b", 2, partition(0))),
        live_brokers=(live_broker(1), live_broker(2)),
    )
    applied(
        cache,
        envelope(
            6,
            topics=(topic("a", 1, partition(1, leader=2, leader_epoch=1)),),
            live_brokers=(live_broker(2, fenced=True),),
        ),
    )
    leaders = [p.leader for p in cache.view.topics_by_id[topic_id(1)].partitions.values()]
    assert leaders == [1, 2]
    assert cache.view.topic_named("b") is not None
    assert list(cache.view.brokers) == [1, 2]


def test_what_a_snapshot_does_not_name_does_not_exist() -> None:
    cache = cache_at(
        5,
        topics=(topic("a", 1, partition(0), partition(1)), topic("b", 2, partition(0))),
        live_brokers=(live_broker(1), live_broker(2)),
    )
    applied(
        cache,
        envelope(
            6, full=True, topics=(topic("a", 1, partition(0)),), live_brokers=(live_broker(2),)
        ),
    )
    assert list(cache.view.topics_by_id) == [topic_id(1)]
    assert list(cache.view.topics_by_id[topic_id(1)].partitions) == [0]
    assert cache.view.topic_named("b") is None
    assert list(cache.view.brokers) == [2]


def test_a_deleted_topic_and_a_removed_broker_are_gone() -> None:
    cache = cache_at(
        5, topics=(topic("a", 1, partition(0)),), live_brokers=(live_broker(1), live_broker(2))
    )
    applied(cache, envelope(6, deleted_topic_ids=(topic_id(1),), removed_brokers=(2,)))
    assert cache.view.topic(topic_id(1)) is None
    assert cache.view.topic_named("a") is None
    assert list(cache.view.brokers) == [1]


def test_a_topic_created_anew_takes_the_name_and_shares_nothing() -> None:
    """I-36, whether the deletion of the old one is named or not."""
    cache = cache_at(5, topics=(topic("a", 1, partition(0), configs={"segment.bytes": "99"}),))
    applied(cache, envelope(6, topics=(topic("a", 2, partition(0)),)))
    found = cache.view.topic_named("a")
    assert found is not None
    assert (found.topic_id, dict(found.configs)) == (topic_id(2), {})
    assert cache.view.topic(topic_id(1)) is None


def test_a_partition_does_not_go_back_to_an_older_epoch() -> None:
    """I-30, P-72: clients that saw the newer leader are not sent back to the older one."""
    newer = partition(0, leader=2, leader_epoch=4, partition_epoch=9)
    cache = cache_at(5, topics=(topic("a", 1, newer),))
    applied(
        cache, envelope(6, topics=(topic("a", 1, partition(0, leader_epoch=3, partition_epoch=8)),))
    )
    assert cache.view.partition(topic_id(1), 0) == newer
    applied(
        cache,
        envelope(7, topics=(topic("a", 1, partition(0, leader_epoch=4, partition_epoch=10)),)),
    )
    known = cache.view.partition(topic_id(1), 0)
    assert known is not None
    assert known.partition_epoch == 10


def test_a_fenced_or_leaving_broker_may_not_be_in_an_isr() -> None:
    """I-24, and the epoch that may join is the one of the same view."""
    brokers = (live_broker(1), live_broker(2, fenced=True), live_broker(3, shutting_down=True))
    cache = cache_at(5, live_brokers=brokers)
    assert dict(cache.view.eligible) == {1: 7}
    restarted = envelope(6, live_brokers=(live_broker(1, fenced=True), live_broker(2, 12)))
    assert dict(cache.eligible_after(restarted)) == {2: 12}
    assert dict(cache.view.eligible) == {1: 7}
    applied(cache, restarted)
    assert dict(cache.view.eligible) == {2: 12}


def test_a_fenced_broker_still_has_an_address() -> None:
    cache = cache_at(5, live_brokers=(live_broker(2, fenced=True),))
    endpoint = cache.view.endpoint(BrokerId(2), "INTERNAL")
    assert endpoint is not None
    assert endpoint.port == 9102
    assert cache.view.endpoint(BrokerId(2), "OTHER") is None
    assert cache.view.endpoint(BrokerId(9), "INTERNAL") is None


def test_configurations_of_a_topic_are_replaced_as_a_whole() -> None:
    cache = cache_at(5, topics=(topic("a", 1, partition(0), configs={"segment.bytes": "99"}),))
    applied(cache, envelope(6, topics=(topic("a", 1, configs={"max.message.bytes": "7"}),)))
    found = cache.view.topic(topic_id(1))
    assert found is not None
    assert dict(found.configs) == {"max.message.bytes": "7"}
    assert list(found.partitions) == [0]


def test_the_view_never_goes_back_even_if_the_host_errs() -> None:
    cache = cache_at(5)
    old = cache.prepare(envelope(4, full=True))
    with pytest.raises(AssertionError):
        cache.publish(old, store_id="store")


def test_what_an_increment_does_not_name_is_not_looked_at() -> None:
    looks = list[str]()

    class Topic:
        """One that tells of each look at it."""

        def __init__(self, number: int) -> None:
            self._own = {"name": f"t{number}", "topic_id": topic_id(number), "partitions": {}}

        def __getattr__(self, field: str) -> object:
            looks.append(field)
            return self._own[field]

    cache = cache_at(5)
    numbers = range(10, 1010)
    others: dict[Any, Any] = {topic_id(number): Topic(number) for number in numbers}
    cache.view = replace(
        cache.view,
        topics_by_id=MappingProxyType(others),
        ids_by_name=MappingProxyType(
            {f"t{number}": topic_id(number) for number in range(10, 1010)}
        ),
    )
    applied(cache, envelope(6, topics=(topic("new", 1, partition(0)),)))
    applied(cache, envelope(7, topics=(topic("new", 1, partition(0, leader_epoch=1)),)))
    applied(cache, envelope(8, deleted_topic_ids=(topic_id(1),)))
    assert looks == []
    assert cache.view.topic_named("new") is None
    applied(cache, envelope(9, deleted_topic_ids=(topic_id(10),)))
    assert looks == ["name"]
    assert cache.view.topic_named("t10") is None
    assert cache.view.ids_by_name["t11"] == topic_id(11)


def test_topics_that_come_go_or_grow_are_another_generation() -> None:
    two = (topic("a", 1, partition(0)), topic("b", 2, partition(0)))
    cache = cache_at(5, topics=two)
    known = cache.view.topics_generation

    def after(pushed: Envelope) -> int:
        """By how much it rises."""
        nonlocal known
        applied(cache, pushed)
        before, known = known, cache.view.topics_generation
        return known - before

    assert after(envelope(6, topics=(topic("a", 1, partition(0, leader_epoch=1)),))) == 0
    assert after(envelope(7, topics=(topic("a", 1, configs={"segment.bytes": "99"}),))) == 0
    assert after(envelope(8, topics=(topic("a", 1, partition(1)),))) == 1
    assert after(envelope(9, topics=(topic("c", 3, partition(0)),))) == 1
    assert after(envelope(10, deleted_topic_ids=(topic_id(3),))) == 1
    assert after(envelope(11, topics=(topic("b", 4, partition(0)),))) == 1, "made anew"
    assert cache.view.topic(topic_id(2)) is None
    whole = (topic("a", 1, partition(0), partition(1)), topic("b", 4, partition(0)))
    assert after(envelope(12, full=True, topics=whole)) == 0
    assert after(envelope(13, full=True, topics=whole[:1])) == 1
    assert dict(cache.view.ids_by_name) == {"a": topic_id(1)}
    other = (topic("b", 5, partition(0)),)
    assert after(envelope(14, full=True, topics=other)) == 1, "as many, but not the same"
