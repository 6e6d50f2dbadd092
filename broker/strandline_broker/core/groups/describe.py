"""Descriptions of groups for people: states, members, their assignments and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups import classic
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

    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_broker.core.groups.records.classic_records import (
        ClassicMember,
        GroupMetadataValue,
    )

CONSUMER: Final = "Consumer"
CLASSIC: Final = "Classic"


def listed(table: GroupTable) -> GroupsListed:
    return GroupsListed(tuple(_listed(table, group_id) for group_id in table.group_ids()))


def described(table: GroupTable, group_id: str, assignors: Sequence[str]) -> GroupDescription:
    """The description of a group. Raises GroupIdNotFound."""
    group = table.consumer.get(group_id)
    if group is not None:
        return _consumer(group, assignors)
    if not table.is_known(group_id):
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    return _classic(group_id, table.classic.get(group_id))


def _listed(table: GroupTable, group_id: str) -> ListedGroup:
    group = table.consumer.get(group_id)
    if group is not None:
        return ListedGroup(group_id, classic.CONSUMER_PROTOCOL, group.state, CONSUMER)
    kept = table.classic.get(group_id)
    if kept is None:
        return ListedGroup(group_id, "", "Empty", CLASSIC)
    return ListedGroup(group_id, kept.protocol_type, classic.state_of(kept), CLASSIC)


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
        protocol_type=classic.CONSUMER_PROTOCOL,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=chosen_assignor(group, assignors),
        members=tuple(members),
    )


def _classic(group_id: str, kept: GroupMetadataValue | None) -> GroupDescription:
    """The description of a classic group. Its assignments are in its own protocol's format, and
    name topics without ids.
    """
    return GroupDescription(
        group_id=group_id,
        group_type=CLASSIC,
        state="Empty" if kept is None else classic.state_of(kept),
        protocol_type="" if kept is None else kept.protocol_type,
        group_epoch=0 if kept is None else kept.generation,
        assignment_epoch=0 if kept is None else kept.generation,
        assignor="" if kept is None else kept.protocol or "",
        members=() if kept is None else tuple(map(_classic_member, kept.members)),
    )


def _classic_member(member: ClassicMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=None,
        member_epoch=-1,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(classic.subscribed_names(member) or ())),
        subscribed_topic_regex=None,
        assignment={},
        target={},
    )
