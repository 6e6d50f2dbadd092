"""Bugs of a group's decisions: its members, their epochs, their assignments."""

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
        "a heartbeat without a list of owned partitions counts as an empty list",
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
        "a rebalance timer fences a member that has revoked in time",
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
        "a member in the previous epoch is accepted though it owns more than its assignment",
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
        "a member that repeats its previous epoch after a lost answer is fenced",
        (
            Edit(
                _BEAT,
                "    if is_behind and _owns_no_more(beat.owned, current.assigned):\n"
                "        return\n",
                "",
            ),
        ),
        history="tests/golden/test_group_histories_of_members.py"
        "::test_13_lost_answer_previous_epoch",
    ),
    Mutant(
        "holder-removed-whoever-it-is",
        "P-107, I-130",
        "the replay of a member's older assignment frees a partition that another member owns"
        " since",
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
        "a target's epoch is written before its assignments",
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
        "a member's leaving does not raise the group epoch",
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
        "a static member that leaves for a while loses its assignment",
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
        "the replacement of a static member stays in this coordinator's memory, and is not"
        " written to the log",
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
        history="tests/golden/test_group_histories_of_members.py::test_16_static_bounce",
    ),
    Mutant(
        "old-static-id-commits",
        "P-111, I-124, I-144",
        "a commit counts for the current holder of the instance id, whichever process has sent it",
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
        "assignments depend on the order of a set, which differs from process to process",
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
                "    if epoch > current.epoch:\n        raise stale()\n",
                "    if epoch > current.epoch:\n        return _any_partition\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_offsets.py::test_who_may_commit",
    ),
    Mutant(
        "offsets-expire-from-their-commit",
        "P-110, I-148",
        "the offsets of a group that has just become empty expire by the age of their commits",
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
        "a committed offset does not carry the id of its topic",
        (
            Edit(
                _OFFSETS,
                "        topic_id=topic_id,\n    )\n",
                "        topic_id=None,\n    )\n",
            ),
        ),
    ),
)
