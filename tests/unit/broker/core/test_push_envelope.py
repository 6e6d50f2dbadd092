"""What an envelope answers about itself."""

from dataclasses import replace

from strandline_broker.core.push_envelope import NO_EPOCH_CHECK, TOPIC_DELETED, HostedTopic
from support.envelopes import envelope, live_broker, topic_id


def test_a_hosted_topic_is_found_by_its_id_and_no_other_way() -> None:
    orders = HostedTopic("orders", topic_id(1), {"segment.bytes": "99"})
    pushed = replace(envelope(5), hosted_topics=(HostedTopic("orders", topic_id(2), {}), orders))
    assert pushed.hosted_topic(topic_id(1)) is orders
    assert pushed.hosted_topic(topic_id(3)) is None


def test_a_broker_has_one_address_for_each_listener() -> None:
    broker = live_broker(4)
    inside, outside = broker.endpoint("INTERNAL"), broker.endpoint("PLAINTEXT")
    assert inside is not None
    assert outside is not None
    assert (inside.port, outside.port) == (9104, 9004)
    assert broker.endpoint("internal") is None


def test_the_sentinels_of_a_stop_are_below_every_leader_epoch() -> None:
    """P-18, and the wire's convention: -1 none, -2 the topic is deleted."""
    assert (NO_EPOCH_CHECK, TOPIC_DELETED) == (-1, -2)
