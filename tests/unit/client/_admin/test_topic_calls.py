"""A topic is there for the client that created it, whichever broker is asked next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from strandline import Admin, NewTopic
from strandline._admin import topic_calls
from strandline.errors import UnknownTopicOrPartition
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Callable


class NameOfCall:
    """Stands for a stub: each of its methods is its name."""

    def __getattr__(self, name: str) -> str:
        return name


class AdminOfLateBrokers(Admin):
    """Its brokers hear of a topic only after so many questions about it."""

    def __init__(self, unheard: int) -> None:
        super().__init__("localhost:1")
        self.unheard = unheard

    async def _appears(self, name: str, count: int = 1) -> None:
        pass

    async def _ask(self, method: Callable[[Any], Any], request: Any) -> Any:
        called = method(NameOfCall())
        if called == "CreateTopics":
            made = metadata_pb2.CreateTopicsResponse()
            made.topics.add(name=request.topics[0].name, partitions=1, replication_factor=1)
            return made
        if called == "DeleteTopics":
            gone = metadata_pb2.DeleteTopicsResponse()
            gone.topics.add(name=request.topics[0].name)
            return gone
        assert called == "Metadata"
        known = metadata_pb2.MetadataResponse()
        self.unheard -= 1
        code = 0 if self.unheard < 0 else UnknownTopicOrPartition.code
        known.topics.add(name=request.topics[0].name, error_code=code)
        return known


async def test_brokers_that_have_not_heard_of_it_are_asked_again() -> None:
    admin = AdminOfLateBrokers(unheard=2)
    await admin.create_topics([NewTopic("t", 1, 1)])
    assert (await admin.describe_topics(["t"]))["t"].name == "t"


async def test_a_topic_of_nobody_is_unknown_at_once() -> None:
    admin = AdminOfLateBrokers(unheard=1)
    with pytest.raises(UnknownTopicOrPartition, match="topic 't' does not exist"):
        await admin.describe_topics(["t"])


async def test_a_topic_that_was_deleted_again_is_unknown_at_once() -> None:
    admin = AdminOfLateBrokers(unheard=1)
    await admin.create_topics([NewTopic("t", 1, 1)])
    await admin.delete_topics(["t"])
    with pytest.raises(UnknownTopicOrPartition):
        await admin.describe_topics(["t"])


async def test_a_topic_that_another_client_deleted_is_asked_for_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_calls, "UNHEARD_OF_S", 0.01)
    admin = AdminOfLateBrokers(unheard=1 << 30)
    await admin.create_topics([NewTopic("t", 1, 1)])
    async with asyncio.timeout(60):
        with pytest.raises(UnknownTopicOrPartition):
            await admin.describe_topics(["t"])
    asked = admin.unheard
    with pytest.raises(UnknownTopicOrPartition):
        await admin.describe_topics(["t"])
    assert admin.unheard == asked - 1, "it is not waited for a second time"
