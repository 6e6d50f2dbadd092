"""Bugs of what is decided about a group: its members, their epochs, what each of them has."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_ADMISSION: Final = "strandline_broker.core.groups.admission"
_ASSIGNOR: Final = "strandline_broker.core.groups.assignors.uniform"
_BEAT: Final = "strandline_broker.core.groups.consumer.heartbeat"
_CONSUMER: Final = "strandline_broker.core.groups.consumer.consumer"
_EXPIRY: Final = "strandline_broker.core.groups.expiry"
_MEMBERSHIP: Final = "strandline_broker.core.groups.consumer.membership"
_OFFSETS: Final = "strandline_broker.core.groups.offsets"
_RECONCILE: Final = "strandline_broker.core.groups.consumer.reconcile"
_REMOVAL: Final = "strandline_broker.core.groups.consumer.removal"
_STATIC: Final = "strandline_broker.core.groups.consumer.static_members"
_TARGET: Final = "strandline_broker.core.groups.consumer.target"

GROUPING: Final = (
    Mutant(
        "no-list-says-that-nothing-is-owned",
        "P-143, I-133, I-134",
        "a member that does not say what it owns is taken to own nothing",
        (
            Edit(
                _RECONCILE,
                "    if owned is None:\n        return True\n    return any(\n",
                "    if owned is None:\n        return False\n    return any(\n",
            ),
        ),
    ),
    Mutant(
        "rebalance-timer-fences-who-gave-up",
        "I-137",
        "a member that has given up in time is fenced when that time is over all the same",
        (
            Edit(
                _REMOVAL,
                "    if waits and current.epoch == command.member_epoch:\n",
                "    if waits or current.epoch != command.member_epoch:\n",
            ),
            Edit(
                _MEMBERSHIP,
                "        draft.effects.append(StopTimer(timer))\n\n\ndef write_current",
                "        pass\n\n\ndef write_current",
            ),
        ),
    ),
    Mutant(
        "previous-epoch-whatever-is-owned",
        "I-135",
        "a member of the epoch before is taken for one, though it owns more than is its own",
        (
            Edit(
                _BEAT,
                "    if is_behind and _owns_no_more(beat.owned, current.assigned):\n",
                "    if is_behind:\n",
            ),
        ),
        history="tests/golden/test_group_histories_of_members.py"
        "::test_13_lost_answer_previous_epoch",
    ),
    Mutant(
        "lost-answer-fences",
        "I-135",
        "a member that says its epoch of before, as an answer was lost, is fenced",
        (
            Edit(
                _BEAT,
                "    if is_behind and _owns_no_more(beat.owned, current.assigned):\n"
                "        return\n",
                "",
            ),
        ),
    ),
    Mutant(
        "holder-removed-whoever-it-is",
        "P-107, I-130",
        "the replay of a member's older assignment frees what another has by then",
        (
            Edit(
                _CONSUMER,
                "    if index.get(key) == member_id:\n        del index[key]\n",
                "    index.pop(key, None)\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_groups_property.py"
        "::test_the_rules_of_groups_hold_in_random_histories",
    ),
    Mutant(
        "target-epoch-before-its-targets",
        "I-128",
        "a target's epoch is written before what it gives to whom",
        (
            Edit(
                _TARGET,
                "    group_id = draft.group_id\n    for member_id in sorted(target):\n",
                "    group_id = draft.group_id\n"
                "    draft.write(\n"
                "        ConsumerGroupTargetAssignmentMetadataKey(group_id),\n"
                "        ConsumerGroupTargetAssignmentMetadataValue(draft.epoch, wall_ms),\n"
                "    )\n"
                "    for member_id in sorted(target):\n",
            ),
            Edit(
                _TARGET,
                "            draft.changed.add(member_id)\n"
                "    draft.write(\n"
                "        ConsumerGroupTargetAssignmentMetadataKey(group_id),\n"
                "        ConsumerGroupTargetAssignmentMetadataValue(draft.epoch, wall_ms),\n"
                "    )\n",
                "            draft.changed.add(member_id)\n",
            ),
        ),
    ),
    Mutant(
        "group-epoch-stays-when-somebody-leaves",
        "I-128",
        "a member that goes changes nothing for the others",
        (
            Edit(
                _MEMBERSHIP,
                "    forget_unused_regexes(draft)\n    raise_epoch(draft, context)\n"
                "    want_target(draft, context)\n",
                "    forget_unused_regexes(draft)\n    want_target(draft, context)\n",
            ),
        ),
    ),
    Mutant(
        "absent-member-keeps-nothing",
        "I-126",
        "a static member that leaves for a while comes back to nothing",
        (
            Edit(
                _STATIC,
                "        state=MemberState.STABLE,\n        assigned=current.assigned,\n    )\n",
                "        state=MemberState.STABLE,\n    )\n",
            ),
        ),
    ),
    Mutant(
        "new-static-id-in-memory-only",
        "P-111, I-102, I-124",
        "who takes a static member's place is known to this coordinator and to no later one",
        (
            Edit(
                _STATIC,
                "    draft.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, former), None)\n"
                "    draft.write(ConsumerGroupTargetAssignmentMemberKey(group_id, former), None)\n"
                "    draft.write(ConsumerGroupMemberMetadataKey(group_id, former), None)\n"
                "    draft.write(ConsumerGroupMemberMetadataKey(group_id, member_id), metadata)\n",
                "    before = list(draft.records)\n"
                "    draft.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, former), None)\n"
                "    draft.write(ConsumerGroupTargetAssignmentMemberKey(group_id, former), None)\n"
                "    draft.write(ConsumerGroupMemberMetadataKey(group_id, former), None)\n"
                "    draft.records[:] = before\n"
                "    draft.write(ConsumerGroupMemberMetadataKey(group_id, member_id), metadata)\n",
            ),
        ),
    ),
    Mutant(
        "old-static-id-commits",
        "P-111, I-124, I-144",
        "a commit counts for whoever has its instance now, whichever process has sent it",
        (
            Edit(
                _ADMISSION,
                "    check_instance(group, command.instance_id, member_id)\n",
                "    if command.instance_id is not None:\n"
                "        member_id = group.static_members.get(command.instance_id, member_id)\n"
                "        epoch = group.current(member_id).epoch\n",
            ),
        ),
        history="tests/golden/test_group_histories_of_members.py::test_17_static_failover",
    ),
    Mutant(
        "assignor-over-a-set",
        "P-145, I-113",
        "who gets what depends on the order of a set, which is another in every process",
        (
            Edit(
                _ASSIGNOR,
                "        self._names = sorted(spec.members,"
                " key=lambda name: sort_key(name, spec.members[name]))\n",
                "        self._names = list(set(spec.members))\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_groups_property.py"
        "::test_the_same_history_writes_the_same_in_every_process",
    ),
    Mutant(
        "future-epoch-commits",
        "I-144",
        "a commit under a later epoch than the member's is accepted",
        (
            Edit(
                _ADMISSION,
                "    if epoch > current.epoch:\n        raise _stale(command, current.epoch)\n",
                "    if epoch > current.epoch:\n"
                "        return lambda _topic_id, _partition: None\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_offsets.py::test_who_may_commit",
    ),
    Mutant(
        "offsets-expire-from-their-commit",
        "P-110, I-148",
        "the offsets of a group that was emptied just now expire by the age of their commits",
        (
            Edit(
                _EXPIRY,
                "        return max(value.commit_timestamp_ms, self._empty_since)\n",
                "        return value.commit_timestamp_ms\n",
            ),
        ),
        history="tests/golden/test_group_histories_of_offsets.py::test_25_expiry_spares_the_living",
    ),
    Mutant(
        "offsets-without-the-topics-id",
        "P-83, I-145",
        "a committed offset does not say which topic of that name it is of",
        (
            Edit(
                _OFFSETS,
                "            topic_id=topic.topic_id,\n        )\n        errors.append(None)\n",
                "            topic_id=None,\n        )\n        errors.append(None)\n",
            ),
        ),
    ),
)
