"""Bugs that the client library once had, under the plans that found them."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_CALLS: Final = "strandline._reading.commits"
_COMMITS: Final = "strandline._groups.commits"
_FETCHER: Final = "strandline._consumer.fetcher"
_STATE: Final = "strandline._core.commit_state"

FOUND_IN_CLIENTS: Final = (
    Mutant(
        "commit-without-an-epoch",
        "P-82, I-106",
        "an application's commit lacks the leader epoch of the record before it",
        (
            Edit(
                _CALLS,
                "            epoch = position.epoch_before(found.offset)\n",
                "            epoch = -1\n",
            ),
        ),
        history="tests/integration/test_client_group_commits.py"
        "::test_it_has_the_epoch_of_the_record_before_where_that_was_handed_over",
    ),
    Mutant(
        "commit-outlives-its-ownership",
        "I-106",
        "a commit is retried under a later ownership of the same partition",
        (
            Edit(
                _STATE,
                "        for commit in self._unsettled:\n"
                '            commit.refuse(gone, GONE, "")\n',
                "",
            ),
            Edit(
                _COMMITS,
                "            own = reconciling.owned - reconciling.lost\n",
                "            own = reconciling.owned\n",
            ),
        ),
        Needs(corpus="a-commit-of-an-earlier-ownership"),
    ),
    Mutant(
        "retry-outlives-its-consumer",
        "I-182",
        "a closed consumer keeps a timer for a failed fetch",
        (
            Edit(
                _FETCHER,
                "            for retry in self._retries.values():\n"
                "                retry.cancel()\n",
                "            self._retries = {}\n",
            ),
        ),
        history="tests/unit/client/_consumer/test_fetcher.py"
        "::test_no_timer_of_a_fetch_that_failed_outlives_its_consumer",
    ),
    Mutant(
        "late-answer-voids-what-came-since",
        "P-82",
        "an answer about the position before a seek drops records that were read ahead since",
        (
            Edit(
                _FETCHER,
                "                end_offset=end.end_offset,\n            ):\n",
                "                end_offset=end.end_offset,\n"
                "            ) or position.generation != generations[key]:\n",
            ),
        ),
        history="tests/unit/client/_consumer/test_fetcher.py"
        "::test_a_late_answer_about_where_it_was_does_not_void_what_came_since",
    ),
    Mutant(
        "heartbeat-while-joining",
        "P-124, I-88",
        "a heartbeat that comes due while the join's answer is late joins too, but lacks the"
        " join's fields",
        (
            Edit(
                "strandline._core.membership",
                "        if self.epoch == JOIN_EPOCH and not self._first:\n",
                "        if self.epoch == JOIN_EPOCH and not self.wants_stream:\n",
            ),
        ),
        history="tests/unit/client/_core/test_membership.py"
        "::test_who_joins_says_so_once_and_waits_for_the_answer",
    ),
    Mutant(
        "retry-timer-is-never-early",
        "I-88",
        "a failed fetch is left out when its timer fires early, and no other timer is started",
        (
            Edit(
                "strandline._consumer.fetcher",
                "        position.retry_at_ms = 0.0"
                "  # uvloop's timers may be early: there is no second one\n",
                "",
            ),
        ),
        history="tests/unit/client/_consumer/test_fetcher.py"
        "::test_what_failed_is_asked_for_again_though_its_timer_is_early",
    ),
    Mutant(
        "not-there-by-an-answer-that-was-not-asked",
        "I-183",
        "a topic counts as missing by a metadata answer that was not asked about it",
        (
            Edit(
                "strandline._net.cluster",
                "if name in changes.unknown and elapsed",
                "if name not in self.view.topics and elapsed",
            ),
        ),
        history="tests/unit/client/_net/test_cluster.py"
        "::test_nobody_is_told_that_a_topic_is_not_there_by_an_answer_that_was_not_asked_for_it",
    ),
    Mutant(
        "moved-only-by-metadata",
        "I-88, I-183",
        "batches under way stay with a leader after its refusal has said that it is deposed",
        (
            Edit(
                "strandline._producer.sender",
                "            if (view := self.cluster.view.partition(*key)) is not None:\n",
                "            if key in changes.moved and"
                " (view := self.cluster.view.partition(*key)) is not None:\n",
            ),
        ),
        history="tests/unit/client/_producer/test_sender_leaders.py"
        "::test_a_newer_leader_is_sent_what_the_older_one_has_not_answered",
    ),
    Mutant(
        "room-that-nobody-offers",
        "P-66, I-88",
        "a send that gives up waiting for buffer room does not pass the room to the next waiter",
        (
            Edit(
                "strandline._producer.sender",
                "            asyncio.get_running_loop().call_soon(self._hand_out_space)\n",
                "                asyncio.get_running_loop().call_soon(self._hand_out_space)\n",
            ),
        ),
        history="tests/unit/client/_producer/test_sender_room.py"
        "::test_who_does_not_wait_for_room_any_more_is_in_nobodys_way",
    ),
    Mutant(
        "look-waits-for-one-broker",
        "I-183",
        "a request for topics waits for one silent broker as long as the call may take",
        (
            Edit(
                "strandline.admin",
                "attempt_s = LOOK_TIMEOUT_S if only_looks else None",
                "attempt_s = None if only_looks else None",
            ),
        ),
        history="tests/integration/test_client_admin_and_sync.py"
        "::test_whoever_only_looks_is_not_held_up_by_brokers_that_are_silent",
    ),
    Mutant(
        "read-before-it-was-told",
        "P-82",
        "records read of a partition that no metadata has described do not rule out an older"
        " leader",
        (
            Edit(
                "strandline._core.cluster_view",
                "        key = topic_id, partition\n",
                "        if self.partition(topic_id, partition) is None:\n"
                "            return\n"
                "        key = topic_id, partition\n",
            ),
        ),
        history="tests/unit/client/_core/test_cluster_view.py"
        "::test_what_has_been_read_is_known_before_the_partition_is",
    ),
    Mutant(
        "subscribed-beside-an-unsubscribe",
        "I-88",
        "a subscription that is made while its consumer leaves is dropped with the old membership",
        (
            Edit(
                "strandline._groups.rebalancing",
                "        if self._releasing:\n            self._once_left = once_left\n",
                "",
            ),
        ),
        history="tests/integration/test_client_side_by_side.py"
        "::test_who_subscribes_beside_an_unsubscribe_leaves_and_comes_back",
    ),
    Mutant(
        "refusal-of-the-next-membership-taken-back",
        "I-88",
        "an unsubscribe that ends clears the refusal of the membership after it, whose consumer"
        " then waits for ever",
        (
            Edit(
                "strandline._groups.group",
                "        if not self.is_subscribed:  # else it is of those who have joined again\n"
                "            self.stream.fatal = None\n",
                "        self.stream.fatal = None\n",
            ),
        ),
        history="tests/integration/test_client_side_by_side.py"
        "::test_who_comes_back_and_is_refused_hears_of_it",
    ),
)
