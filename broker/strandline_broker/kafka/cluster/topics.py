"""CreateTopics, DeleteTopics and CreatePartitions, which the controller decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.topics.added_partitions import MorePartitions
from strandline_broker.core.controller.topics.topics import NewTopic
from strandline_broker.hosts.serving.administration import decide_each, named_once, timeout_s
from strandline_broker.hosts.serving.metadata import TopicRef
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.kafka.cluster.errors import error_fields
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import InvalidConfig, InvalidRequest, WireError
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from strandline_broker.core.controller.topics.topics import CreatedTopic, DeletedTopic
    from strandline_broker.hosts.serving.configs import ConfigsService
    from strandline_broker.kafka.cluster.forward import Forward
    from strandline_broker.kafka.request import Request

NO_ID: Final = bytes(16)
RETURNS_CONFIGS: Final = 5
DELETES_BY_ID: Final = 6


class TopicsCalls:
    def __init__(self, forward: Forward, configs: ConfigsService) -> None:
        self._forward = forward
        self._configs = configs

    async def CreateTopics(self, request: Request, message: Any) -> Any:
        async def decide(wishes: list[NewTopic]) -> list[CreatedTopic | WireError]:
            return await self._forward.create_topics(
                wishes, validate_only=message.validate_only, limit_s=timeout_s(message.timeout_ms)
            )

        wishes = named_once((each.name, _new_topic(each)) for each in message.topics)
        results = await decide_each(wishes, decide)
        answer = answer_of("CreateTopics")
        found = answer()
        found.topics = []
        configs: dict[tuple[tuple[str, str], ...], list[Any]] = {}
        async for name, result in in_turns(results.items(), every=20):
            if isinstance(result, WireError):
                topic = answer.CreatableTopicResult(name=name, **error_fields(result))
            else:
                topic = _created(result)
                if request.version >= RETURNS_CONFIGS:
                    topic.configs = self._described(wishes[name], configs)
            found.topics.append(topic)
        return found

    def _described(
        self, wish: Any, known: dict[tuple[tuple[str, str], ...], list[Any]]
    ) -> list[Any]:
        """The configuration of the new topic; topics with the same entries share it."""
        if wish.configs not in known:
            kind = answer_of("CreateTopics").CreatableTopicResult.CreatableTopicConfigs
            known[wish.configs] = [
                kind(
                    name=each.name,
                    value=each.value,
                    read_only=each.read_only,
                    config_source=each.source,
                    is_sensitive=False,
                )
                for each in self._configs.of_topic(dict(wish.configs))
            ]
        return known[wish.configs]

    async def DeleteTopics(self, request: Request, message: Any) -> Any:
        async def decide(wishes: list[TopicRef]) -> list[DeletedTopic | WireError]:
            return await self._forward.delete_topics(wishes, limit_s=timeout_s(message.timeout_ms))

        if request.version >= DELETES_BY_ID:
            asked = [TopicRef(each.topic_id, each.name) for each in message.topics]
        else:
            asked = [TopicRef(NO_ID, name) for name in message.topic_names]
        results = await decide_each(named_once((ref, _checked(ref)) for ref in asked), decide)
        answer = answer_of("DeleteTopics")
        return answer(
            responses=[
                answer.DeletableTopicResult(
                    name=ref.name, topic_id=ref.topic_id.hex(), **error_fields(result)
                )
                if isinstance(result, WireError)
                else answer.DeletableTopicResult(
                    name=result.name, topic_id=result.topic_id.hex(), **error_fields(None)
                )
                for ref, result in results.items()
            ]
        )

    async def CreatePartitions(self, request: Request, message: Any) -> Any:
        async def decide(wishes: list[MorePartitions]) -> list[WireError | None]:
            return await self._forward.create_partitions(
                wishes, validate_only=message.validate_only, limit_s=timeout_s(message.timeout_ms)
            )

        wishes = named_once((each.name, _more_partitions(each)) for each in message.topics)
        results = await decide_each(wishes, decide)
        answer = answer_of("CreatePartitions")
        return answer(
            results=[
                answer.CreatePartitionsTopicResult(name=name, **error_fields(result))
                for name, result in results.items()
            ]
        )


def _created(topic: CreatedTopic) -> Any:
    return answer_of("CreateTopics").CreatableTopicResult(
        name=topic.name,
        topic_id=(topic.topic_id or NO_ID).hex(),
        **error_fields(None),
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
    )


def _new_topic(asked: Any) -> NewTopic | WireError:
    for each in asked.configs:
        if each.value is None:
            return InvalidConfig(f"topic {asked.name}: the value of {each.name} is null")
    return NewTopic(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignments=tuple(
            (each.partition_index, tuple(map(BrokerId, each.broker_ids)))
            for each in asked.assignments
        ),
        configs=tuple((each.name, each.value) for each in asked.configs),
    )


def _checked(ref: TopicRef) -> TopicRef | WireError:
    """Returns the topic to delete, named by its id or by its name."""
    has_id = ref.topic_id != NO_ID
    if has_id and ref.name is not None:
        return InvalidRequest("a topic is named by its name or by its id, not by both")
    if not has_id and ref.name is None:
        return InvalidRequest("a topic has neither a name nor an id")
    return TopicRef(ref.topic_id, "") if has_id else TopicRef(b"", ref.name)


def _more_partitions(asked: Any) -> MorePartitions:
    return MorePartitions(
        asked.name,
        asked.count,
        tuple(tuple(map(BrokerId, each.broker_ids)) for each in asked.assignments or ()),
    )
