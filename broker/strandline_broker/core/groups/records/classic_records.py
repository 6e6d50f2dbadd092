"""The record of a group of the classic protocol: the whole group in one value, with its members.

Version 3 is written, as Kafka does. Fields missing in older versions get Kafka's defaults: a
rebalance timeout equal to the session timeout, and no time of the last change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline_broker.core.coordination.wire import Reader, Writer

TYPE: Final = 2
VERSION_MAX: Final = 4

_WRITTEN_VERSION: Final = 3
_REBALANCE_TIMEOUT_SINCE: Final = 1
_STATE_TIMESTAMP_SINCE: Final = 2
_INSTANCE_ID_SINCE: Final = 3
_FLEXIBLE_SINCE: Final = 4
_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the chosen protocol."""
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp_ms: int | None = None
    members: tuple[ClassicMember, ...] = ()


def write_value(value: GroupMetadataValue) -> bytes:
    writer = Writer().i16(_WRITTEN_VERSION).string(value.protocol_type).i32(value.generation)
    changed_at = value.current_state_timestamp_ms
    writer.string(value.protocol).string(value.leader)
    writer.i64(_NO_TIMESTAMP if changed_at is None else changed_at)

    def member(member: ClassicMember) -> None:
        writer.string(member.member_id).string(member.group_instance_id)
        writer.string(member.client_id).string(member.client_host)
        writer.i32(member.rebalance_timeout_ms).i32(member.session_timeout_ms)
        writer.blob(member.subscription).blob(member.assignment)

    return writer.array(value.members, member).done()


def read_value(reader: Reader, version: int) -> GroupMetadataValue:
    reader.flexible = version >= _FLEXIBLE_SINCE
    protocol_type = reader.string()
    generation = reader.i32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    changed_at = reader.i64() if version >= _STATE_TIMESTAMP_SINCE else _NO_TIMESTAMP

    def member() -> ClassicMember:
        member_id = reader.string()
        instance_id = reader.nullable_string() if version >= _INSTANCE_ID_SINCE else None
        client_id = reader.string()
        client_host = reader.string()
        rebalance_timeout_ms = reader.i32() if version >= _REBALANCE_TIMEOUT_SINCE else -1
        session_timeout_ms = reader.i32()
        found = ClassicMember(
            member_id=member_id,
            group_instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=session_timeout_ms
            if rebalance_timeout_ms == -1
            else rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            subscription=reader.blob(),
            assignment=reader.blob(),
        )
        reader.tags()
        return found

    members = reader.array(member)
    reader.tags()
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp_ms=None if changed_at == _NO_TIMESTAMP else changed_at,
        members=members,
    )
