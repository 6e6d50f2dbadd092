"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), by hand: kafka-python has no schemas
of them.

Members over this protocol have no stream: a member learns of a changed assignment by the answer to
its next heartbeat. All versions are flexible (KIP-482).
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Final, TypeVar

from strandline_broker.core.groups.commands import JOIN_EPOCH, BeatAnswer, ConsumerBeat
from strandline_broker.core.groups.describe import CONSUMER
from strandline_broker.hosts.serving.groups import GROUPS_AT_ONCE
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.groups.authorized import operations_of_a_group
from strandline_broker.kafka.groups.bounds import IN_ONE_STEP_MAX, LISTED_MAX, check_count
from strandline_broker.kafka.groups.errors import code_of, text_of
from strandline_broker.kafka.request import DECODED_AT_ONCE_BYTES, by_hand
from strandline_broker.kafka.wire import Cursor, MalformedRequest, Writer
from strandline_proto.errors import WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import DescribedMember, GroupDescription
    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView
    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")

REGEX_SINCE: Final = 1
CLIENTS_MAKE_IDS_SINCE: Final = 1
"""First version in which a joining member names its id; before, the coordinator may make it."""
MEMBER_TYPE_SINCE: Final = 1
CONSUMER_MEMBER: Final = 1
"""Member type of a member that speaks the consumer protocol."""
ABSENT: Final = -1
PRESENT: Final = 1
"""The byte before a structure that may be null."""


class ConsumerGroupCalls:
    def __init__(self, groups: GroupsService, metadata: MetadataCache, runtime: Runtime) -> None:
        self._groups = groups
        self._metadata = metadata
        self._random_id = runtime.random_id
        self._thread = runtime.serial_executor("kafka-heartbeats")

    @by_hand
    async def ConsumerGroupHeartbeat(self, request: Request) -> Buffers:
        command = await self._decoded(self._beat, request)
        try:
            reply = await self._groups.beat(command)
        except WireError as error:
            reply = error
        assert isinstance(reply, BeatAnswer | WireError), reply
        return _heartbeat_answer(reply)

    async def _decoded(self, decode: Callable[[Request], T], request: Request) -> T:
        if len(request.body) < DECODED_AT_ONCE_BYTES:
            return decode(request)
        return await asyncio.get_running_loop().run_in_executor(self._thread, decode, request)

    def _beat(self, request: Request) -> ConsumerBeat:
        cursor, version = Cursor(request.body), request.version
        group_id, member_id = cursor.text(compact=True), cursor.text(compact=True)
        member_epoch = cursor.int32()
        if not member_id and member_epoch == JOIN_EPOCH and version < CLIENTS_MAKE_IDS_SINCE:
            member_id = base64.urlsafe_b64encode(self._random_id()).rstrip(b"=").decode()
        instance_id, rack_id = cursor.string(compact=True), cursor.string(compact=True)
        rebalance_timeout_ms = cursor.int32()
        names = _texts(cursor, "topics", IN_ONE_STEP_MAX)
        regex = cursor.string(compact=True) if version >= REGEX_SINCE else None
        server_assignor = cursor.string(compact=True)
        owned = _partition_sets(cursor)
        cursor.skip_tags()
        cursor.check_end()
        return ConsumerBeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            instance_id=instance_id,
            rack_id=rack_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=None if names is None else tuple(dict.fromkeys(names)),
            subscribed_topic_regex=regex,
            server_assignor=server_assignor,
            owned=owned,
            client_id=request.client_id,
            client_host=f"/{request.client_host}",
        )

    @by_hand
    async def ConsumerGroupDescribe(self, request: Request) -> Buffers:
        group_ids, wants_operations = await self._decoded(_asked_groups, request)
        operations = operations_of_a_group(wants_operations)
        out, turns, view = Writer(compact=True), Turns(GROUPS_AT_ONCE), self._metadata.view
        out.int32(0)  # throttle time
        out.length(len(group_ids))
        async for group_id, found in self._groups.describe(group_ids, of_type=CONSUMER):
            if isinstance(found, WireError):
                _described_error(out, group_id, found)
            else:
                _described(out, found)
                for member in found.members:
                    _member(out, member, view, request.version)
                    await turns.took()
            out.int32(operations)
            out.no_tags()
        out.no_tags()
        return out.buffers()


def _asked_groups(request: Request) -> tuple[list[str], bool]:
    """The group ids of a ConsumerGroupDescribe, and True if it asks for operations."""
    cursor = Cursor(request.body)
    group_ids = _texts(cursor, "groups", LISTED_MAX)
    if group_ids is None:
        raise MalformedRequest("GroupIds is null; it must have a value")
    wants_operations = cursor.boolean()
    cursor.skip_tags()
    cursor.check_end()
    return group_ids, wants_operations


def _heartbeat_answer(reply: BeatAnswer | WireError) -> Buffers:
    out = Writer(compact=True)
    out.int32(0)  # throttle time
    if isinstance(reply, WireError):
        out.int16(code_of(reply))
        out.string(text_of(reply))
        out.string(None)
        out.int32(0)
        out.int32(0)
        out.int8(ABSENT)
    else:
        out.int16(0)
        out.string(None)
        out.string(reply.member_id)
        out.int32(reply.member_epoch)
        out.int32(reply.heartbeat_interval_ms)
        if reply.assignment is None:
            out.int8(ABSENT)
        else:
            out.int8(PRESENT)
            out.length(len(reply.assignment))
            for topic_id, partitions in sorted(reply.assignment.items()):
                out.raw(topic_id)
                out.int32s(partitions)
                out.no_tags()
            out.no_tags()
    out.no_tags()
    return out.buffers()


def _described_error(out: Writer, group_id: str, error: WireError) -> None:
    out.int16(code_of(error))
    out.string(text_of(error))
    out.string(group_id)
    out.string("")
    out.int32(0)
    out.int32(0)
    out.string("")
    out.length(0)


def _described(out: Writer, found: GroupDescription) -> None:
    """The group's fields before its members, and their number."""
    out.int16(0)
    out.string(None)
    out.string(found.group_id)
    out.string(found.state)
    out.int32(found.group_epoch)
    out.int32(found.assignment_epoch)
    out.string(found.assignor)
    out.length(len(found.members))


def _member(out: Writer, member: DescribedMember, view: MetadataView, version: int) -> None:
    out.string(member.member_id)
    out.string(member.instance_id)
    out.string(member.rack_id)
    out.int32(member.member_epoch)
    out.string(member.client_id)
    out.string(member.client_host)
    out.length(len(member.subscribed_topic_names))
    for name in member.subscribed_topic_names:
        out.string(name)
    out.string(member.subscribed_topic_regex)
    _assignment(out, member.assignment, view)
    _assignment(out, member.target, view)
    if version >= MEMBER_TYPE_SINCE:
        out.int8(CONSUMER_MEMBER)
    out.no_tags()


def _assignment(out: Writer, sets: PartitionSets, view: MetadataView) -> None:
    """The partitions of the topics that exist: a deleted one has no name for an administrator."""
    topics = [(view.topic(topic_id), partitions) for topic_id, partitions in sorted(sets.items())]
    known = [(topic, partitions) for topic, partitions in topics if topic is not None]
    out.length(len(known))
    for topic, partitions in known:
        out.raw(topic.topic_id)
        out.string(topic.name)
        out.int32s(partitions)
        out.no_tags()
    out.no_tags()


def _texts(cursor: Cursor, noun: str, most: int) -> list[str] | None:
    count = cursor.count(compact=True)
    check_count(count, noun, most)
    return None if count < 0 else [cursor.text(compact=True) for _ in range(count)]


def _partition_sets(cursor: Cursor) -> PartitionSets | None:
    """The partitions of each topic in rising order, each partition once; None for null."""
    count = cursor.count(compact=True)
    if count < 0:
        return None
    check_count(count, "topics")
    found: dict[TopicId, set[int]] = {}
    total = 0
    for _ in range(count):
        partitions = found.setdefault(TopicId(cursor.uuid()), set())
        number = cursor.count(compact=True)
        if number < 0:
            raise MalformedRequest("Partitions is null; it must have a value")
        total += number
        check_count(total, "partitions", LISTED_MAX)
        partitions.update(cursor.int32() for _ in range(number))
        cursor.skip_tags()
    return {topic_id: tuple(sorted(each)) for topic_id, each in found.items() if each}
