"""Descriptions of groups for people: states, members, their assignments and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.classic.consumer_protocol import (
    CONSUMER_PROTOCOL,
    assigned_partitions,
    subscribed_names,
)
from strandline_broker.core.groups.classic.group import ClassicGroup, GroupState
from strandline_broker.core.groups.commands import (
    DescribedMember,
    GroupDescription,
    GroupsListed,
    ListedGroup,
)
from strandline_broker.core.groups.consumer.current_assignment import sets_of
from strandline_broker.core.groups.consumer.target import chosen_assignor
from strandline_proto.errors import GroupIdNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.classic.group import Member
    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_broker.core.metadata_cache import MetadataView

CONSUMER: Final = "Consumer"
CLASSIC: Final = "Classic"


def listed(table: GroupTable) -> GroupsListed:
    return GroupsListed(tuple(_listed(table, group_id) for group_id in table.group_ids()))


def described(
    table: GroupTable, group_id: str, assignors: Sequence[str], metadata: MetadataView
) -> GroupDescription:
    """The description of a group. Raises GroupIdNotFound."""
    group = table.consumer.get(group_id)
    if group is not None:
        return _consumer(group, assignors)
    if not table.is_known(group_id):
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    return _classic(_classic_group(table, group_id), metadata)


def _listed(table: GroupTable, group_id: str) -> ListedGroup:
    group = table.consumer.get(group_id)
    if group is not None:
        return ListedGroup(group_id, CONSUMER_PROTOCOL, group.state, CONSUMER)
    classic = _classic_group(table, group_id)
    return ListedGroup(group_id, classic.protocol_type, classic.state.value, CLASSIC)


def _classic_group(table: GroupTable, group_id: str) -> ClassicGroup:
    """The classic group of that id; a group that has offsets alone is one without members."""
    return table.classic_group(group_id) or ClassicGroup(group_id)


def _consumer(group: ConsumerGroup, assignors: Sequence[str]) -> GroupDescription:
    members = []
    for member_id in sorted(group.members):
        metadata = group.members[member_id]
        current = group.current(member_id)
        members.append(
            DescribedMember(
                member_id=member_id,
                instance_id=metadata.instance_id,
                rack_id=metadata.rack_id,
                member_epoch=current.epoch,
                client_id=metadata.client_id,
                client_host=metadata.client_host,
                subscribed_topic_names=metadata.subscribed_topic_names,
                subscribed_topic_regex=metadata.subscribed_topic_regex or None,
                assignment=sets_of(current.assigned),
                target=group.target(member_id),
            )
        )
    return GroupDescription(
        group_id=group.group_id,
        group_type=CONSUMER,
        state=group.state,
        protocol_type=CONSUMER_PROTOCOL,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=chosen_assignor(group, assignors),
        members=tuple(members),
    )


def _classic(group: ClassicGroup, metadata: MetadataView) -> GroupDescription:
    is_stable = group.state is GroupState.STABLE
    return GroupDescription(
        group_id=group.group_id,
        group_type=CLASSIC,
        state=group.state.value,
        protocol_type=group.protocol_type,
        group_epoch=group.generation,
        assignment_epoch=group.generation,
        assignor=(group.protocol or "") if is_stable else "",
        members=tuple(
            _classic_member(group, member, metadata) for _, member in sorted(group.members.items())
        ),
    )


def _classic_member(group: ClassicGroup, member: Member, metadata: MetadataView) -> DescribedMember:
    """The description of a member. Its assignment is shown as partitions if the group is one of
    consumers.
    """
    is_stable = group.state is GroupState.STABLE
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL
    names = subscribed_names(member.shown_metadata(group.protocol)) if is_consumer else None
    assignment = _partitions(member.assignment, metadata) if is_consumer and is_stable else {}
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=None,
        member_epoch=group.generation,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(names or ())),
        subscribed_topic_regex=None,
        assignment=assignment,
        target=assignment,
        metadata=member.metadata(group.protocol) if is_stable else b"",
        assignment_bytes=member.assignment if is_stable else b"",
    )


def _partitions(assignment: bytes, metadata: MetadataView) -> PartitionSets:
    """The partitions of topics that exist; the assignment names topics without ids."""
    found = assigned_partitions(assignment) or {}
    return {
        metadata.ids_by_name[name]: partitions
        for name, partitions in found.items()
        if name in metadata.ids_by_name
    }
