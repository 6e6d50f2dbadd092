"""How far what a member says on its stream can be believed (I-134)."""

from dataclasses import replace

import pytest

from strandline_broker.core.groups.commands import ConsumerBeat
from strandline_broker.core.groups.consumer.stream_view import as_seen
from strandline_proto.errors import InvalidRequest
from support.groups_rig import GroupsRig, joining

BEAT = ConsumerBeat(group_id="g", member_id="m", member_epoch=3, owned={})


def test_who_has_seen_the_last_push_is_believed() -> None:
    assert as_seen(BEAT, seen_push=2, last_push=2) is BEAT


def test_who_has_not_is_alive_and_no_more() -> None:
    assert as_seen(BEAT, seen_push=1, last_push=2) == replace(BEAT, crossed=True)


@pytest.mark.parametrize("epoch", [-1, -2])
def test_who_leaves_leaves(epoch: int) -> None:
    leaves = replace(BEAT, member_epoch=epoch)
    assert as_seen(leaves, seen_push=0, last_push=2) is leaves


@pytest.mark.parametrize("seen", [-1, 3])
def test_a_push_that_was_never_sent_is_not_seen(seen: int) -> None:
    with pytest.raises(InvalidRequest, match="last push of this stream is 2"):
        as_seen(BEAT, seen_push=seen, last_push=2)


def test_a_crossing_message_changes_the_subscription_and_renews_the_session() -> None:
    rig = GroupsRig()
    rig.topic("t", 1)
    rig.topic("u", 1)
    rig.join("m", "t")
    crossing = replace(joining("m", "t", "u"), member_epoch=7, crossed=True)
    answer = rig.ask(crossing)
    assert (answer.member_epoch, answer.assignment) == (2, rig.parts(t=(0,), u=(0,)))
    ended = replace(crossing, subscribed_topic_names=(), owned={})
    assert rig.ask(ended).member_epoch == 2
    assert rig.groups.table.consumer["g"].current("m").pending
