"""What an envelope answers about itself."""

from dataclasses import replace

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.push_envelope import NO_EPOCH_CHECK, TOPIC_DELETED
from support.envelopes import live_broker


def test_a_broker_has_one_address_for_each_listener() -> None:
    broker = live_broker(4)
    inside, outside = broker.endpoint("INTERNAL"), broker.endpoint("PLAINTEXT")
    assert inside is not None
    assert outside is not None
    assert (inside.port, outside.port) == (9104, 9004)
    assert broker.endpoint("internal") is None


def test_an_only_listener_of_the_former_name_is_the_address_for_every_listener() -> None:
    only = Endpoint("PLAINTEXT", "h", 1)
    assert replace(live_broker(4), endpoints=(only,)).endpoint("GRPC") == only
    other = replace(live_broker(4), endpoints=(Endpoint("INTERNAL", "h", 1),))
    assert other.endpoint("GRPC") is None


def test_the_sentinels_of_a_stop_are_below_every_leader_epoch() -> None:
    """P-18, and the wire's convention: -1 none, -2 the topic is deleted."""
    assert (NO_EPOCH_CHECK, TOPIC_DELETED) == (-1, -2)
