"""Groups that change their protocol, that are shown, deleted and expired."""

from __future__ import annotations

from strandline_broker.core.groups.classic import decisions as module
from strandline_broker.core.groups.commands import (
    DeleteGroup,
    DescribeGroup,
    Expire,
    ListedGroup,
    ListGroups,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    GroupIdNotFound,
    InconsistentGroupProtocol,
    NonEmptyGroup,
    WireError,
)
from support.classic_rig import SUBSCRIPTION, ClassicRig, code_of
from support.groups_rig import joining

RETENTION_MS = GroupSettings().offsets_retention_ms
ASSIGNMENT = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000001 ffffffff")


# The other protocol


def test_a_group_with_members_of_the_consumer_protocol_refuses_the_classic_one() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    rig.join("m", "t")
    call = rig.join_group()
    assert call.code == InconsistentGroupProtocol.code
    assert "classic protocol" in str(call.answer)
    assert "consumer protocol" in str(call.answer)
    assert rig.sync_group("m", 1).code == 25
    assert rig.heartbeat("m", 1) == 25
    assert rig.leave_group("m") == [25]


def test_an_empty_group_of_the_consumer_protocol_becomes_a_classic_one() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    rig.join("m", "t")
    rig.commit(5, member_id="m", member_epoch=1)
    rig.beat("m", -1)
    given = rig.new_id()
    assert "g" not in rig.groups.table.consumer
    assert (rig.record.generation, rig.record.members) == (0, ())
    assert rig.fetch().offset == 5
    call = rig.join_group(given)
    rig.wait(200)
    rig.settle([given])
    assert call.code == 0
    assert rig.load().table.consumer == {}


def test_a_refused_join_converts_nothing() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    rig.join("m", "t")
    rig.beat("m", -1)
    assert rig.join_group("nobody").code == 25
    assert rig.join_group(protocols=()).code == 23
    assert "g" in rig.groups.table.consumer


def test_a_group_with_classic_members_refuses_the_consumer_protocol() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    (member_id,) = rig.stable()
    for beat in (joining("m", "t"), joining("m", "t", member_epoch=1, owned={})):
        error = rig.run(beat).answer
        assert isinstance(error, GroupIdNotFound)
        assert "classic protocol" in str(error)
        assert "consumer protocol" in str(error)
    rig.join_group(member_id)
    assert isinstance(rig.run(joining("m", "t")).answer, GroupIdNotFound), "in a rebalance too"


def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    (member_id,) = rig.stable()
    rig.leave_group(member_id)
    given = rig.new_id()
    rig.join("m", "t")
    assert (rig.groups.table.classic, rig.groups.table.live) == ({}, {})
    assert rig.join_group(given).code == InconsistentGroupProtocol.code
    assert given not in str(rig.timers)


# Groups as a whole


def test_a_group_is_listed_in_every_state() -> None:
    rig = ClassicRig()

    def listed() -> ListedGroup:
        (found,) = rig.ask(ListGroups()).groups
        assert isinstance(found, ListedGroup)
        return found

    given = rig.new_id()
    assert listed() == ListedGroup("g", "", "Empty", "Classic")
    rig.join_group(given)
    assert listed() == ListedGroup("g", "consumer", "PreparingRebalance", "Classic")
    rig.wait(200)
    assert listed().state == "CompletingRebalance"
    rig.settle([given])
    assert listed().state == "Stable"
    rig.leave_group(given)
    assert listed() == ListedGroup("g", "consumer", "Empty", "Classic")


def test_a_stable_group_is_described_with_its_payloads() -> None:
    rig = ClassicRig()
    topic_id = rig.topic("t", 2)
    (member_id,) = rig.stable()
    rig.join_group(member_id)
    described = rig.ask(DescribeGroup("g"))
    assert (described.state, described.assignor) == ("CompletingRebalance", "")
    (member,) = described.members
    assert (member.subscribed_topic_names, member.metadata) == (("t",), b"")
    rig.sync_group(member_id, 2, parts={member_id: ASSIGNMENT})
    described = rig.ask(DescribeGroup("g"))
    assert (described.group_type, described.state, described.protocol_type) == (
        *("Classic", "Stable"),
        "consumer",
    )
    assert (described.assignor, described.group_epoch) == ("range", 2)
    (member,) = described.members
    assert (member.metadata, member.assignment_bytes) == (SUBSCRIPTION, ASSIGNMENT)
    assert member.assignment == {topic_id: (0, 1)}
    rig.no_topic("t")
    assert rig.ask(DescribeGroup("g")).members[0].assignment == {}


def test_payloads_of_other_protocols_are_opaque() -> None:
    rig = ClassicRig()
    rig.topic("t", 2)
    given = rig.new_id(protocol_type="connect")
    rig.join_group(given, protocol_type="connect")
    rig.wait(200)
    rig.sync_group(given, 1, protocol_type="connect", parts={given: ASSIGNMENT})
    (member,) = rig.ask(DescribeGroup("g")).members
    assert (member.assignment, member.subscribed_topic_names) == ({}, ())
    assert member.assignment_bytes == ASSIGNMENT


def test_only_an_empty_group_is_deleted() -> None:
    rig = ClassicRig()
    member_id, _ = rig.enter()
    assert code_of(rig.run(DeleteGroup("g")).answer) == NonEmptyGroup.code
    rig.wait(200)
    rig.settle([member_id])
    assert code_of(rig.run(DeleteGroup("g")).answer) == NonEmptyGroup.code
    rig.leave_group(member_id)
    given = rig.new_id()
    assert rig.run(DeleteGroup("g")).answer is None
    assert (rig.groups.group_ids(), rig.timers) == ((), {})
    assert rig.join_group(given).code == 25


# Expiry


def test_offsets_of_a_group_in_a_rebalance_do_not_expire() -> None:
    """P-110."""
    rig = ClassicRig()
    rig.topic("t", 1), rig.topic("u", 1)
    rig.commit(1), rig.commit(1, topic="u")
    rig.now_ms += RETENTION_MS
    given = rig.new_id()
    assert rig.ask(Expire("g")) == 0, "an id was handed out"
    rig.join_group(given)
    assert rig.ask(Expire("g")) == 0
    rig.wait(200)
    assert rig.ask(Expire("g")) == 0
    rig.settle([given])
    assert rig.ask(Expire("g")) == 1, "nobody subscribes to u"
    assert rig.fetch("t").offset == 1
    rig.leave_group(given)
    assert rig.ask(Expire("g")) == 0
    rig.now_ms += RETENTION_MS
    assert rig.ask(Expire("g")) == 1
    assert rig.groups.group_ids() == ()


def test_metadata_that_does_not_parse_may_mean_any_topic() -> None:
    rig = ClassicRig()
    rig.topic("t", 1)
    rig.commit(1)
    rig.now_ms += RETENTION_MS
    from strandline_broker.core.groups.classic.commands import JoinProtocol

    protocols = (JoinProtocol("range", b"\0"),)
    rig.stable(protocols=protocols)
    assert rig.ask(Expire("g")) == 0


def test_a_group_whose_id_was_handed_out_is_not_expired() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable()
    rig.leave_group(member_id)
    rig.new_id()
    rig.run(Expire("g"))
    assert rig.record.generation == 2
    assert module.decide is not None
    assert not isinstance(rig.run(DescribeGroup("g")).answer, WireError)
