"""What a group's members subscribe to."""

from strandline_broker.core.groups.consumer.subscription import names_to_match
from strandline_broker.core.metadata_cache import MetadataView
from strandline_proto.ids import TopicId


def test_a_regular_expression_never_meets_the_internal_topics() -> None:
    names = ["b", "__consumer_offsets", "__transaction_state", "__debezium-heartbeat.x", "a"]
    view = MetadataView(ids_by_name={name: TopicId(name.encode()) for name in names})
    assert names_to_match(view) == ["__debezium-heartbeat.x", "a", "b"]
