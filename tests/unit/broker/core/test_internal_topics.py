"""Which topics are the cluster's own."""

from strandline_broker.core.internal_topics import INTERNAL_TOPICS


def test_exactly_two_names_are_internal() -> None:
    assert {"__consumer_offsets", "__transaction_state"} == INTERNAL_TOPICS
