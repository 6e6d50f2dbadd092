"""Kafka's messages behind the codec: which answers a thread encodes."""

import pytest

from strandline_broker.kafka.codec import LARGE, answer_of, is_large


@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 1), (LARGE, 0), (1, LARGE - 1)])
def test_a_small_answer_is_encoded_at_once(topics: int, partitions: int) -> None:
    assert not is_large(_answer(topics, partitions))


@pytest.mark.parametrize(("topics", "partitions"), [(LARGE + 1, 0), (1, LARGE), (40, 30)])
def test_an_answer_with_many_elements_is_large_at_any_depth(topics: int, partitions: int) -> None:
    assert is_large(_answer(topics, partitions))


def _answer(topics: int, partitions: int) -> object:
    answer = answer_of("DescribeTopicPartitions")
    topic = answer.DescribeTopicPartitionsResponseTopic
    partition = topic.DescribeTopicPartitionsResponsePartition
    return answer(
        topics=[
            topic(name="t", partitions=[partition() for _ in range(partitions)])
            for _ in range(topics)
        ]
    )
