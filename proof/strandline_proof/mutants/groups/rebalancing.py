"""Bugs of classic groups: their phases, their static members, their calls that wait."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CALLS: Final = "strandline_broker.hosts.groups.parked_calls"
_GROUP: Final = "strandline_broker.core.groups.classic.group"
_GROUP_SHARD: Final = "strandline_broker.hosts.groups.group_shard"
_HOST: Final = "strandline_broker.hosts.coordination.shard_host"
_JOIN: Final = "strandline_broker.core.groups.classic.join"
_LEAVE: Final = "strandline_broker.core.groups.classic.leave"
_MEMBERS: Final = "strandline_broker.core.groups.classic.members"
_REBALANCE: Final = "strandline_broker.core.groups.classic.rebalance"
_SYNC: Final = "strandline_broker.core.groups.classic.sync"
_HISTORIES: Final = "tests/golden/test_classic_histories.py"
_PROPERTY: Final = (
    "tests/unit/broker/core/groups/test_classic_property.py"
    "::test_the_rules_of_classic_groups_hold_in_random_histories"
)
_PARKED: Final = "tests/unit/broker/hosts/groups/test_parked_calls.py"

REBALANCING: Final = (
    Mutant(
        "new-static-id-in-memory-alone",
        "P-111, I-124",
        "a static member that returns to a stable group gets a new id that no record has",
        (Edit(_JOIN, "        change.write(group.value())\n        answer =", "        answer ="),),
        history=f"{_HISTORIES}::test_17_static_failover",
    ),
    Mutant(
        "new-static-id-unwritten-in-a-rebalance",
        "P-111, I-124",
        "a static member that returns during a rebalance gets a new id that no record has",
        (
            Edit(
                _JOIN,
                "    if changed is not None:\n        change.write(changed)\n",
                "    assert changed is None or changed.members\n",
            ),
        ),
        history=f"{_HISTORIES}::test_17_static_failover",
    ),
    Mutant(
        "new-static-id-unwritten-after-a-removal",
        "P-111, I-124",
        "a static member that comes back after its removal gets an id that no record has",
        (Edit(_JOIN, "        _write_id(change, command.instance_id, member_id, recorded)\n", ""),),
        history="tests/unit/broker/core/groups/classic/test_join.py"
        "::test_a_static_member_that_comes_back_after_its_removal_is_not_fenced",
    ),
    Mutant(
        "former-static-id-counts",
        "P-111, I-124",
        "a former member id of an instance is taken for the present one",
        (
            Edit(
                _MEMBERS,
                "        if holder is not None and holder != member_id:\n",
                "        member_id = holder or member_id\n"
                "        if holder is not None and holder != member_id:\n",
            ),
        ),
        history=f"{_HISTORIES}::test_17_static_failover",
    ),
    Mutant(
        "classic-commit-by-generation-alone",
        "I-124, I-144",
        "a commit to a classic group names the generation, and no member is looked up",
        (
            Edit(
                _MEMBERS,
                "    member = known_member(group, group.group_id, member_id, instance_id)\n"
                "    check_generation(group, generation)\n"
                "    if group.state is GroupState.COMPLETING:\n",
                "    member = group.members.get(member_id)\n"
                "    check_generation(group, generation)\n"
                "    if group.state is GroupState.COMPLETING:\n",
            ),
        ),
        history=f"{_HISTORIES}::test_17_static_failover",
    ),
    Mutant(
        "no-timer-for-missing-syncs",
        "P-132, I-121",
        "a generation waits for the SyncGroup of its leader without a limit",
        (
            Edit(
                _REBALANCE,
                "    change.effects.append(timer)\n    for member in group.members.values():\n",
                "    assert timer.ms >= 0\n    for member in group.members.values():\n",
            ),
        ),
        history="tests/unit/broker/core/groups/classic/test_sync.py"
        "::test_members_that_do_not_sync_are_removed",
    ),
    Mutant(
        "join-phase-waits-for-a-dead-id",
        "P-133, I-120",
        "the end of a handed-out id's session does not end the join phase that awaits it",
        (
            Edit(
                _LEAVE,
                "        group.remove(member_id)\n        maybe_complete(change)\n        return\n",
                "        group.remove(member_id)\n        return\n",
            ),
        ),
        history="tests/unit/broker/core/groups/classic/test_join.py"
        "::test_a_handed_out_id_that_dies_does_not_hold_up_the_group",
    ),
    Mutant(
        "stable-before-its-record",
        "I-119",
        "a classic group is stable when its leader has synced, and its record is not written",
        (
            Edit(
                _SYNC,
                "    change.write(value)\n    change.enter_stable()\n",
                "    change.enter_stable()\n",
            ),
        ),
        history=f"{_HISTORIES}::test_18_classic_two_members",
    ),
    Mutant(
        "join-phase-ends-without-handed-out-ids",
        "I-117",
        "a join phase ends while an id that was handed out has not joined",
        (
            Edit(
                _GROUP,
                "        return not self.pending and len(self.joined) == len(self.members)\n",
                "        return len(self.joined) == len(self.members)\n",
            ),
        ),
        history="tests/unit/broker/core/groups/classic/test_join.py"
        "::test_the_join_phase_waits_for_handed_out_ids",
    ),
    Mutant(
        "unnamed-member-keeps-its-part",
        "I-118",
        "a member that the leader has not named keeps its former assignment",
        (
            Edit(_REBALANCE, '        member.assignment = b""\n        if', "        if"),
            Edit(
                _SYNC,
                '        member.assignment = named.get(member.member_id, b"")\n',
                "        member.assignment = named.get(member.member_id, member.assignment)\n",
            ),
        ),
        history=_PROPERTY,
    ),
    Mutant(
        "assignment-told-before-its-commit",
        "I-104, I-118",
        "a SyncGroup that waits is answered when the assignment is in the coordinator's own log",
        (Edit(_HOST, "        if self.machine.park(ticket, about):\n", "        if about:\n"),),
        history=f"{_PARKED}::test_nothing_leaves_before_it_is_committed",
    ),
    Mutant(
        "parked-call-outlives-the-shard",
        "I-110, I-122",
        "a JoinGroup that waits has no answer when the shard ends",
        (Edit(_GROUP_SHARD, "        self.calls.lose_all(error)\n", ""),),
        history=f"{_PARKED}::test_calls_end_with_the_shard",
    ),
    Mutant(
        "gone-connection-leads",
        "I-122",
        "a member whose connection has ended leads the next generation",
        (
            Edit(
                _CALLS,
                "            if self._parked.pop(call.number, None) is not None:\n",
                "            if self._parked.pop(call.number, None) is None:\n",
            ),
        ),
        history=f"{_PARKED}::test_a_join_of_a_gone_connection_holds_nobody_up",
    ),
    Mutant(
        "second-join-forgets-the-first",
        "I-122",
        "a JoinGroup that is sent again leaves the former one without an answer",
        (
            Edit(
                _REBALANCE,
                "        self.answer_join(member, self._repeated(member))\n",
                "",
            ),
        ),
        history="tests/unit/broker/core/groups/classic/test_join.py"
        "::test_a_join_that_is_sent_again_ends_the_one_that_waits",
    ),
)
