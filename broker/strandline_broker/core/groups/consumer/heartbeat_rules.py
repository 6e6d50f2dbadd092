"""Checks of a heartbeat that do not depend on the state of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.commands import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED,
    ConsumerBeat,
)
from strandline_broker.core.groups.group_ids import TEXT_BYTES_MAX, check_new_group_id
from strandline_proto.errors import InvalidRequest, UnsupportedAssignor

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_broker.core.groups.consumer.subscription import Matcher

REGEX_BYTES_MAX: Final = 4096


def check_heartbeat(beat: ConsumerBeat, assignors: Collection[str], matcher: Matcher) -> None:
    """Raise the error for an invalid heartbeat."""
    if not beat.group_id:
        raise InvalidRequest("a heartbeat names its group: group_id is empty")
    if not beat.member_id:
        raise InvalidRequest("a heartbeat names its member: member_id is empty")
    _check_ids(beat)
    if beat.member_epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest(
            f"member_epoch is {beat.member_epoch}: -1 and -2 leave, 0 joins, and others are above"
        )
    if beat.member_epoch == LEAVE_STATIC_EPOCH and beat.instance_id is None:
        raise InvalidRequest("member_epoch -2 is for static members: it needs an instance_id")
    # The other fields of a member that leaves mean nothing, as in Kafka: one client sends zero.
    if beat.member_epoch >= JOIN_EPOCH:
        _check_membership(beat, assignors, matcher)


def _check_membership(beat: ConsumerBeat, assignors: Collection[str], matcher: Matcher) -> None:
    if beat.rebalance_timeout_ms != UNCHANGED and beat.rebalance_timeout_ms <= 0:
        raise InvalidRequest(
            f"rebalance_timeout_ms is {beat.rebalance_timeout_ms}: it must be above 0, or -1 for "
            "unchanged"
        )
    if beat.member_epoch == JOIN_EPOCH:
        _check_joining(beat)
    if beat.server_assignor and beat.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"the assignor {beat.server_assignor!r} is not one of: {', '.join(assignors)}"
        )
    if beat.subscribed_topic_regex:
        if len(beat.subscribed_topic_regex.encode()) > REGEX_BYTES_MAX:
            raise InvalidRequest(f"subscribed_topic_regex is longer than {REGEX_BYTES_MAX} bytes")
        matcher.check(beat.subscribed_topic_regex)


def _check_ids(beat: ConsumerBeat) -> None:
    for name, value in (
        ("member_id", beat.member_id),
        ("instance_id", beat.instance_id),
        ("rack_id", beat.rack_id),
        ("client_id", beat.client_id or None),
    ):
        if value is None:
            continue
        if not value:
            raise InvalidRequest(f"{name} is empty; leave it out instead")
        if len(value.encode()) > TEXT_BYTES_MAX:
            raise InvalidRequest(f"{name} is longer than {TEXT_BYTES_MAX} bytes: {value[:40]!r}...")


def _check_joining(beat: ConsumerBeat) -> None:
    check_new_group_id(beat.group_id)
    if beat.rebalance_timeout_ms == UNCHANGED:
        raise InvalidRequest("who joins says its rebalance_timeout_ms")
    if beat.subscribed_topic_names is None and beat.subscribed_topic_regex is None:
        raise InvalidRequest(
            "who joins says subscribed_topic_names or subscribed_topic_regex, or both"
        )
    if beat.owned is None or beat.owned:
        raise InvalidRequest("who joins owns nothing: its topic_partitions are given, and empty")
