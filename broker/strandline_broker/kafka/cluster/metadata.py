"""Metadata: brokers, topics and the leaders of their partitions, as this broker knows them.

The answering broker is named as the controller, because our controller is no broker: the admin
clients send it the requests that the controller decides, and it forwards them.

An encoded topic is kept until the topic changes: clients ask for the same ones again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.hosts.serving.metadata import (
    Reach,
    TopicRef,
    UnknownTopic,
    all_topics,
    live_brokers,
    may_be_created,
    named_topic,
    unknown_name_error,
)
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.cluster.errors import (
    LISTENER_NOT_FOUND,
    REBOOTSTRAP_REQUIRED,
    REPLICA_NOT_AVAILABLE,
)
from strandline_broker.kafka.cluster.operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from strandline_broker.kafka.request import KNOWS_NOTHING, CloseConnection, by_hand
from strandline_broker.kafka.wire import Cursor, MalformedRequest, Writer
from strandline_proto.errors import (
    NONE,
    InvalidRequest,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import NO_LEADER, BrokerId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.metadata_cache import CachedTopic, MetadataCache, MetadataView
    from strandline_broker.core.push_envelope import PartitionMetadata
    from strandline_broker.hosts.serving.applied_views import AppliedViews
    from strandline_broker.hosts.serving.auto_creation import AutoCreation
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers
    from strandline_proto.ids import TopicId

CREATED_MAX: Final = 1_000
"""Limit of the topics that one request creates; more of them are unknown."""
KEPT_BYTES_MAX: Final = 32 << 20
"""Limit of the encoded topics that are kept for one listener."""

RACK_AND_CONTROLLER: Final = 1
CLUSTER_ID: Final = 2
THROTTLE_TIME: Final = 3
ALLOWS_CREATION: Final = 4
OFFLINE_REPLICAS: Final = 5
KNOWS_LISTENERS: Final = 6
LEADER_EPOCH: Final = 7
OPERATIONS: Final = 8
FLEXIBLE: Final = 9
TOPIC_ID: Final = 10
NO_CLUSTER_OPERATIONS: Final = 11
BY_ID: Final = 12
WHOLE_ERROR: Final = 13

NO_ID: Final = bytes(16)
_REST_OF_COUNT: Final = bytes(3)
_FIELDS_BEHIND_TOPICS: Final = 3
"""Bytes from allow_auto_topic_creation to the end, without tagged fields, from version 11 on."""
_SAME_LAYOUT: Final = {2: 1, 3: 1, 4: 1, 8: 7, 11: 10, 12: 10, 13: 10}
"""Versions whose topics have the bytes of an earlier version, up to the authorized operations."""


class _Asked(NamedTuple):
    """The fields of a request."""

    refs: Mapping[TopicRef, None] | None
    """The named topics; None: all topics."""
    is_invalid: bool
    """True if a topic has neither name nor id, or an id before version 12."""
    creates_topics: bool
    cluster_operations: bool
    topic_operations: bool


class MetadataCalls:
    def __init__(
        self,
        metadata: MetadataCache,
        views: AppliedViews,
        creation: AutoCreation | None,
        *,
        me: BrokerId,
        listener: str,
    ) -> None:
        """`creation`: None if requests create no topics."""
        self._metadata = metadata
        self._views = views
        self._creation = creation
        self._me = me
        self._listener = listener
        self._encoded = _EncodedTopics(Reach(metadata.view, listener))

    @by_hand
    async def Metadata(self, request: Request) -> Buffers:
        asked = await _read(request)
        if not await self._views.first():
            return _unknowing(request.version)
        turns = Turns()
        view = self._metadata.view  # read once: the answer is of one moment
        found = await _found(view, asked)
        codes: Mapping[str, int] = {}
        missing = await self._to_create(asked, found)
        if missing and self._creation is not None:
            codes = await self._creation.create(missing)
            view = self._metadata.view
            found = await _found(view, asked)
        encoded = self._encoded_of(view)
        version = request.version
        out = Writer(compact=version >= FLEXIBLE)
        self._write_cluster(out, version, view, encoded.reach)
        out.length(len(found))
        for each in found:
            if isinstance(each, UnknownTopic):
                _write_unknown(out, version, each, codes.get(each.ref.name))
                is_known = each.error_code == UnknownTopicOrPartition.code
                await turns.took()
            else:
                is_known = True
                out.raw(encoded.topic(each, version))
                await turns.took(1 + len(each.partitions))
            if version >= OPERATIONS:
                out.int32(ON_TOPIC if asked.topic_operations and is_known else NOT_ASKED)
            out.no_tags()
        if OPERATIONS <= version < NO_CLUSTER_OPERATIONS:
            out.int32(ON_CLUSTER if asked.cluster_operations else NOT_ASKED)
        if version >= WHOLE_ERROR:
            out.int16(InvalidRequest.code if asked.is_invalid else NONE)
        out.no_tags()
        return out.buffers()

    async def _to_create(self, asked: _Asked, found: list[CachedTopic | UnknownTopic]) -> list[str]:
        """The names that the request makes topics of, as far as one request can."""
        names: list[str] = []
        if asked.creates_topics and self._creation is not None and not asked.is_invalid:
            async for each in in_turns(found):
                if isinstance(each, UnknownTopic) and may_be_created(each.ref.name):
                    names.append(each.ref.name)
                    if len(names) == CREATED_MAX:
                        break
        return names

    def _encoded_of(self, view: MetadataView) -> _EncodedTopics:
        """The encoded topics for the view's brokers, without those of deleted topics."""
        if not self._encoded.reach.holds_for(view):
            self._encoded = _EncodedTopics(Reach(view, self._listener))
        self._encoded.keep_only(view)
        return self._encoded

    def _write_cluster(self, out: Writer, version: int, view: MetadataView, reach: Reach) -> None:
        if version >= THROTTLE_TIME:
            out.int32(0)
        nodes = list(live_brokers(view, self._listener))
        out.length(len(nodes))
        for node in nodes:
            out.int32(node.broker_id)
            out.string(node.host)
            out.int32(node.port)
            if version >= RACK_AND_CONTROLLER:
                out.string(node.rack or None)
            out.no_tags()
        if version >= CLUSTER_ID:
            out.string(self._metadata.cluster_id or None)
        if version >= RACK_AND_CONTROLLER:
            out.int32(reach.any_broker(self._me))


def _unknowing(version: int) -> Buffers:
    """The answer of a broker that has not heard from the controller since its start: the client
    asks its other bootstrap servers (KIP-1102). Earlier versions have no error for it, and an empty
    answer would mean that there are no topics.
    """
    if version < WHOLE_ERROR:
        raise CloseConnection(KNOWS_NOTHING)
    out = Writer(compact=True)
    out.int32(0)
    out.length(0)
    out.string(None)
    out.int32(NO_LEADER)
    out.length(0)
    out.int16(REBOOTSTRAP_REQUIRED)
    out.no_tags()
    return out.buffers()


class _EncodedTopics:
    """The encoded topics for the clients of one listener, while the brokers stay the same."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._kept: dict[tuple[TopicId, int], tuple[CachedTopic, bytes]] = {}
        self._bytes = 0
        self._generation = -1

    def keep_only(self, view: MetadataView) -> None:
        """Drops the topics that the view does not have."""
        if view.topics_generation == self._generation:
            return
        self._generation = view.topics_generation
        known = view.topics_by_id
        self._kept = {key: made for key, made in self._kept.items() if key[0] in known}
        self._bytes = sum(len(made[1]) for made in self._kept.values())

    def topic(self, topic: CachedTopic, version: int) -> bytes:
        """The topic's bytes up to its authorized operations."""
        key = (topic.topic_id, _SAME_LAYOUT.get(version, version))
        made = self._kept.get(key)
        if made is not None and made[0] is topic:
            return made[1]
        encoded = self._encode(topic, version)
        if self._bytes + len(encoded) > KEPT_BYTES_MAX:
            self._kept, self._bytes = {}, 0
            made = None
        self._kept[key] = (topic, encoded)
        self._bytes += len(encoded) - (0 if made is None else len(made[1]))
        return encoded

    def _encode(self, topic: CachedTopic, version: int) -> bytes:
        out = Writer(compact=version >= FLEXIBLE)
        _write_names(
            out,
            version,
            NONE,
            topic.name,
            topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
        )
        out.length(len(topic.partitions))
        for partition in topic.partitions.values():
            self._write_partition(out, version, partition)
        return b"".join(out.buffers())

    def _write_partition(self, out: Writer, version: int, partition: PartitionMetadata) -> None:
        reach = self.reach
        leader = reach.leader(partition)
        error = NONE
        if leader == NO_LEADER:
            error = LeaderNotAvailable.code
            if version >= KNOWS_LISTENERS and reach.lacks_listener(partition.leader):
                error = LISTENER_NOT_FOUND
        replicas, isr = list(partition.replicas), list(partition.isr)
        if version == 0:
            # Clients of version 0 expect live replicas only.
            replicas, isr = reach.reachable(replicas), reach.reachable(isr)
            if error == NONE and len(replicas) < len(partition.replicas):
                error = REPLICA_NOT_AVAILABLE
        out.int16(error)
        out.int32(partition.partition)
        out.int32(leader)
        if version >= LEADER_EPOCH:
            out.int32(partition.leader_epoch)
        out.int32s(replicas)
        out.int32s(isr)
        if version >= OFFLINE_REPLICAS:
            out.int32s(reach.offline(partition))
        out.no_tags()


async def _found(view: MetadataView, asked: _Asked) -> list[CachedTopic | UnknownTopic]:
    """The topics of the answer, each once: the answer needs a bound."""
    if asked.refs is None:
        return [*all_topics(view)]
    if asked.is_invalid:
        return [UnknownTopic(ref, InvalidRequest.code) for ref in asked.refs]
    return [named_topic(view, ref) async for ref in in_turns(asked.refs)]


async def _read(request: Request) -> _Asked:
    version, cursor, turns = request.version, Cursor(request.body), Turns()
    compact = version >= FLEXIBLE
    count = cursor.count(compact)
    if count < 0 and version == 0:
        raise MalformedRequest("topics is null; version 0 asks for all topics with an empty array")
    is_all = count < 0 or (count == 0 and version == 0)
    refs: dict[TopicRef, None] = {}
    is_invalid = False
    for _ in range(count):
        topic_id = cursor.uuid() if version >= TOPIC_ID else NO_ID
        name = cursor.string(compact) if version >= TOPIC_ID else cursor.text(compact)
        if compact:
            cursor.skip_tags()
        has_id = topic_id != NO_ID
        is_invalid |= version < BY_ID if has_id else name is None
        refs[TopicRef(topic_id, "") if has_id else TopicRef(b"", name or "")] = None
        await turns.took()
    if count < 0 and version >= NO_CLUSTER_OPERATIONS:
        _skip_rest_of_count(cursor)
    creates = cursor.boolean() if version >= ALLOWS_CREATION else True
    cluster = OPERATIONS <= version < NO_CLUSTER_OPERATIONS and cursor.boolean()
    topics = version >= OPERATIONS and cursor.boolean()
    if compact:
        cursor.skip_tags()
    cursor.check_end()
    return _Asked(None if is_all else refs, is_invalid, creates, cluster, topics)


def _skip_rest_of_count(cursor: Cursor) -> None:
    """Skips three bytes of an array's count: librdkafka (2.2 to 2.16 at least) leaves four bytes
    where a compact null array has one. A request without them is shorter by three bytes.
    """
    behind = cursor.pos + len(_REST_OF_COUNT)
    if (
        cursor.end - behind == _FIELDS_BEHIND_TOPICS
        and cursor.data[cursor.pos : behind] == _REST_OF_COUNT
    ):
        cursor.pos = behind


def _write_unknown(out: Writer, version: int, topic: UnknownTopic, code: int | None) -> None:
    """`code`: the reason why the topic was not created."""
    (topic_id, name), error = topic
    if error == UnknownTopicOrPartition.code:
        error = unknown_name_error(name) if code is None else code
    named = None if topic_id and version >= BY_ID else name
    _write_names(out, version, error, named, topic_id or NO_ID, is_internal=name in INTERNAL_TOPICS)
    out.length(0)


def _write_names(
    out: Writer, version: int, error: int, name: str | None, topic_id: bytes, *, is_internal: bool
) -> None:
    out.int16(error)
    out.string(name)
    if version >= TOPIC_ID:
        out.raw(topic_id)
    if version >= RACK_AND_CONTROLLER:
        out.boolean(is_internal)
