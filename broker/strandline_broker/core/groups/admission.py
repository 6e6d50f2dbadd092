"""The rules that admit commits and reads of a group's offsets, by the group's kind and state
(I-144).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic import members as classic_members
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.commands import NO_EPOCH
from strandline_broker.core.groups.consumer.static_members import check_instance
from strandline_broker.core.groups.group_ids import check_new_group_id
from strandline_proto.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.groups.commands import (
        CommitOffsets,
        FetchOffsets,
        TxnOffsetCommit,
    )
    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
    from strandline_broker.core.groups.consumer.current_assignment import Current
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_proto.errors import WireError
    from strandline_proto.ids import TopicId


def admit_commit(table: GroupTable, command: CommitOffsets) -> Callable[[TopicId, int], None]:
    """Raise the error that refuses the whole commit; the returned function raises the error that
    refuses one partition.
    """
    group_id = command.group_id
    group = table.consumer.get(group_id)
    if group is not None:
        return _admit_to_consumer_group(group, command)
    classic = table.classic_group(group_id)
    if classic is not None:
        classic_members.admit_commit(
            classic,
            member_id=command.member_id,
            generation=command.member_epoch,
            instance_id=command.instance_id,
        )
    elif command.member_epoch >= 0:
        if command.knows_member_epochs:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        raise IllegalGeneration(f"there is no group {group_id!r}, so it is in no generation")
    else:
        _check_id_if_new(table, group_id)
    return _any_partition


def admit_txn_commit(table: GroupTable, command: TxnOffsetCommit) -> Callable[[TopicId, int], None]:
    """Raise the error that refuses the whole commit in a transaction (KIP-447); the returned
    function raises the error that refuses one partition.

    A sender that names neither member nor epoch is not checked: older producers know neither. The
    producer's epoch fences such a sender. Every other sender must be a member, with the present
    epoch or generation; a partition that a member has kept may be of an earlier epoch. A group that
    waits for its leader's assignments admits its members.
    """
    group_id, epoch = command.group_id, command.member_epoch
    group, classic = table.consumer.get(group_id), table.classic_group(group_id)
    names_nobody = not command.member_id and command.instance_id is None and epoch == NO_EPOCH
    if group is None and classic is None:
        if epoch >= 0:
            raise IllegalGeneration(f"there is no group {group_id!r}, so it is in no generation")
        _check_id_if_new(table, group_id)
    elif names_nobody:
        pass
    elif group is not None:
        return _admit_txn_to_consumer_group(group, command)
    elif classic is not None and (epoch >= 0 or classic.state is not GroupState.EMPTY):
        classic_members.known_member(classic, group_id, command.member_id, command.instance_id)
        classic_members.check_generation(classic, epoch)
    return _any_partition


def _admit_txn_to_consumer_group(
    group: ConsumerGroup, command: TxnOffsetCommit
) -> Callable[[TopicId, int], None]:
    sender, epoch = command.member_id, command.member_epoch
    if epoch < 0 and not group.members:
        return _any_partition
    check_instance(group, command.instance_id, sender)
    if sender not in group.members:
        raise UnknownMemberId(f"group {group.group_id!r} has no member {sender!r}")
    current = group.current(sender)
    return _by_epoch(
        current,
        epoch,
        lambda: IllegalGeneration(
            f"member {sender!r} of group {group.group_id!r} says epoch {epoch}, and its epoch is"
            f" {current.epoch}: abort the transaction and continue with the present epoch"
        ),
    )


def _check_id_if_new(table: GroupTable, group_id: str) -> None:
    if not table.is_known(group_id):
        check_new_group_id(group_id)


def _admit_to_consumer_group(
    group: ConsumerGroup, command: CommitOffsets
) -> Callable[[TopicId, int], None]:
    group_id, member_id, epoch = command.group_id, command.member_id, command.member_epoch
    if epoch < 0 and not group.members:
        return _any_partition
    check_instance(group, command.instance_id, member_id)
    if member_id not in group.members:
        raise UnknownMemberId(
            f"group {group_id!r} has no member {member_id!r}"
            if member_id
            else f"group {group_id!r} has {len(group.members)} members: only they commit its "
            "offsets; stop them first"
        )
    if not command.knows_member_epochs:
        raise UnsupportedVersion(
            f"group {group_id!r} is of the consumer protocol: its members commit by member epochs, "
            "from version 9 of OffsetCommit on"
        )
    current = group.current(member_id)
    return _by_epoch(current, epoch, lambda: _stale(command, current.epoch))


def _any_partition(topic_id: TopicId, partition: int) -> None:
    """Admits every partition."""


def _by_epoch(
    current: Current, epoch: int, stale: Callable[[], WireError]
) -> Callable[[TopicId, int], None]:
    """Admits a member's commit with its present epoch, or with an earlier one for the partitions
    that it has kept since. Raises what `stale` returns, as the returned function does.
    """
    if epoch == current.epoch:
        return _any_partition
    if epoch > current.epoch:
        raise stale()

    def of_an_earlier_epoch(topic_id: TopicId, partition: int) -> None:
        for held in (current.assigned, current.pending):
            assigned_in = held.get(topic_id, {}).get(partition)
            if assigned_in is not None and assigned_in <= epoch:
                return
        raise stale()

    return of_an_earlier_epoch


def admit_fetch(table: GroupTable, command: FetchOffsets) -> None:
    """Raise the error that refuses a fetch. An unknown group has no offsets, and that is no
    error.
    """
    if not command.group_id:
        raise InvalidGroupId("the group id is empty")
    group = table.consumer.get(command.group_id)
    if group is None or (not command.member_id and command.member_epoch < 0):
        return
    if command.member_id not in group.members:
        raise UnknownMemberId(f"group {command.group_id!r} has no member {command.member_id!r}")
    epoch = group.current(command.member_id).epoch
    if command.member_epoch != epoch:
        raise _stale(command, epoch)


def subscribes_to(table: GroupTable, group_id: str, topic: str) -> bool:
    """True if members of the group read the topic."""
    group = table.consumer.get(group_id)
    if group is not None:
        return topic in group.subscribed_names()
    classic = table.classic_group(group_id)
    names = set() if classic is None else classic.subscribed_names()
    return names is None or topic in names


def _stale(command: CommitOffsets | FetchOffsets, epoch: int) -> StaleMemberEpoch:
    return StaleMemberEpoch(
        f"member {command.member_id!r} of group {command.group_id!r} says epoch "
        f"{command.member_epoch}, and its epoch is {epoch}"
    )
