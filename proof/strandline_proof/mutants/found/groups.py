"""Bugs that group coordinators once had, under the plans that found them."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_GROUPS: Final = "strandline_broker.core.groups.groups"
_GROUP_SHARD: Final = "strandline_broker.hosts.groups.group_shard"
_HOST: Final = "strandline_broker.hosts.coordination.shard_host"
_PRODUCE: Final = "strandline_broker.hosts.serving.produce_requests"
_PROOF: Final = "strandline_broker.hosts.groups.leadership_proof"
_READS: Final = "strandline_broker.hosts.replica.reads"
_REGISTRY: Final = "strandline_broker.hosts.coordination.registry"
_SESSION_RPC: Final = "strandline_broker.rpc.groups.session"
_SESSIONS: Final = "strandline_broker.hosts.groups.sessions"
_FETCH: Final = "strandline_broker.hosts.fetching.session_partitions"
_STREAM: Final = "strandline._groups.stream"
_TIMERS: Final = "strandline_broker.hosts.coordination.timers"

FOUND_IN_GROUPS: Final = (
    Mutant(
        "commit-before-a-push",
        "I-106",
        "a commit is accepted on a stream that has delivered nothing to its member yet, though"
        " the commit may be old",
        (
            Edit(
                _SESSION_RPC,
                "        if request.seen_push == 0:\n"
                "            raise InvalidRequest("
                '"a commit on a stream comes after its first push: seen_push is 0")\n',
                "",
            ),
            Edit(
                _STREAM,
                "            elif self._commit is not None and membership.seen_push > 0:\n",
                "            elif self._commit is not None:\n",
            ),
        ),
        Needs(corpus="a-commit-that-was-stuck-on-its-way"),
    ),
    Mutant(
        "offsets-of-a-coordinator-cut-off",
        "P-101, I-106",
        "a coordinator without news from the controller answers with committed offsets, though"
        " another may coordinate",
        (
            Edit(_GROUP_SHARD, " and self.context.is_sure()):\n", "):\n"),
            Edit(
                _GROUP_SHARD,
                "FetchOffsets) and not self.context.is_sure():\n",
                "FetchOffsets) and self.shard.partition.log is None:\n",
            ),
        ),
        Needs(corpus="told-by-a-coordinator-that-is-cut-off"),
        history="tests/unit/broker/hosts/coordination/test_shard_host.py"
        "::test_who_cannot_prove_that_it_leads_says_no_offset",
    ),
    Mutant(
        "proved-by-an-earlier-write",
        "P-101, I-106",
        "a coordinator takes a write appended before a question as proof that it led at the"
        " question, though the next leader may have read that write before",
        (
            Edit(
                _PROOF,
                "                self._answer(served)\n",
                "                self._answer([*served, *self._asked])\n"
                "                self._asked = []\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_shard_host.py"
        "::test_one_write_serves_all_who_asked_before_it",
    ),
    Mutant(
        "out-of-range-whoever-leads",
        "I-106",
        "a leader without news from the controller reports a position as out of range, though"
        " another may lead",
        (Edit(_READS, "        if is_sure():\n", "        if is_sure() or partition.log:\n"),),
        Needs(corpus="out-of-range-of-a-deposed-leader"),
        history="tests/unit/broker/hosts/replica/test_reads.py"
        "::test_who_may_have_been_deposed_calls_no_position_out_of_range",
    ),
    Mutant(
        "repetition-is-news",
        "I-134",
        "an assignment that is sent again counts as new, so the member's acknowledgement of the"
        " first does not cover it",
        (
            Edit(
                _SESSIONS,
                "            if (reply.member_epoch, assignment) !="
                " (self._last_epoch, self._last_assignment):\n",
                "            if (\n"
                "                reply.assignment is not None\n"
                "                or reply.member_epoch != self._last_epoch\n"
                "            ):\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session.py"
        "::test_an_acknowledgement_that_crosses_a_repetition_is_believed",
    ),
    Mutant(
        "given-up-counts-as-told",
        "I-133",
        "a member that gave up a partition and owns it again is not asked to revoke it again",
        (
            Edit(
                _GROUPS,
                "            self._told[key] = assignment, _both(asked, beat.owned)\n",
                "            self._told[key] = assignment, asked\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_acknowledgement_owed.py"
        "::test_who_is_asked_for_the_same_once_more_is_told_so",
    ),
    Mutant(
        "waits-at-the-end-of-a-segment",
        "I-88",
        "a fetch at a segment's end waits for its minimum of bytes, though the next segment has"
        " records",
        (
            Edit(
                _FETCH,
                "            if found.next_offset < end:\n",
                "            if found.next_offset < 0 <= end:\n",
            ),
        ),
        history="tests/unit/broker/hosts/fetching/test_session.py"
        "::test_a_segments_end_is_not_waited_at",
    ),
    Mutant(
        "failed-load-is-final",
        "I-88",
        "a coordinator that could not read its log stays out of service after the log is readable"
        " again",
        (Edit(_HOST, "            if error.may_pass:\n", "            if not str(error):\n"),),
        Needs(corpus="a-coordinators-log-misread"),
    ),
    Mutant(
        "coordinates-from-a-replica-that-is-gone",
        "I-88",
        "a replica of the groups' log that is set aside and assigned again keeps the coordinator"
        " of its predecessor",
        (
            Edit(
                _REGISTRY,
                "        if host is not None and host.partition is not led.partition:\n",
                "        if host is not None and host.partition is None:\n",
            ),
            Edit(
                "strandline_broker.hosts.member.envelopes",
                "                await self._logs.set_aside(partition)\n"
                "                self._roles.on_deleted(partition)\n",
                "                await self._logs.set_aside(partition)\n",
            ),
        ),
        Needs(corpus="a-coordinator-whose-log-was-set-aside"),
    ),
    Mutant(
        "commit-is-heard-in-its-turn",
        "I-179",
        "a commit renews its member's session only when the commit before it is answered",
        (
            Edit(
                _SESSION_RPC,
                "        self._host.heard(command.group_id, command.member_id)\n"
                "        if self._commit is not None:\n"
                "            await asyncio.wait([self._commit])\n",
                "        if self._commit is not None:\n"
                "            await asyncio.wait([self._commit])\n"
                "        self._host.heard(command.group_id, command.member_id)\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session.py"
        "::test_who_commits_is_heard_of_while_its_last_commit_hangs",
    ),
    Mutant(
        "waiters-outlive-their-stream",
        "I-182",
        "a commit's waiter goes on waiting after its produce stream has ended",
        (
            Edit(
                _PRODUCE,
                "        for request in waiting:\n            request.abandon()\n",
                "        waiting.clear()\n",
            ),
        ),
        Needs(corpus="producers-of-a-stream-that-has-ended"),
    ),
    Mutant(
        "second-stall-not-given-back",
        "P-146, I-179",
        "a second stall, while sockets are read after a first one, counts as the members' silence",
        (
            Edit(
                _TIMERS,
                "                if late_ms > LATE_MS:\n"
                "                    looks = (0,)  # all of them once more\n",
                "                late_ms = 0\n",
            ),
            Edit(
                _TIMERS,
                "                    looks = (*READS_MS, 0)\n",
                "                    looks = (LATE_MS, 0)\n",
            ),
        ),
        Needs(corpus="two-stalls-in-a-row"),
    ),
    Mutant(
        "stall-before-the-first-look",
        "P-146, I-179",
        "a broker that stands still before the first look at its timers takes all members for dead",
        (
            Edit(
                _TIMERS,
                "            if wait_ms is None or not self._has_looked:\n",
                "            if wait_ms is None:\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_timers.py"
        "::test_a_pause_before_the_first_look_is_given_back",
    ),
    Mutant(
        "stall-with-the-first-timer",
        "P-146, I-179",
        "a broker that stalls as it starts its first timer takes the member for dead",
        (
            Edit(
                _TIMERS,
                "                wait_ms, late_ms = 0, self._now_ms() - self._woken_ms\n",
                "                wait_ms, late_ms = 0, 0\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_timers.py"
        "::test_a_pause_that_begins_with_the_first_timer_is_given_back",
    ),
    Mutant(
        "late-coordinator-waits-for-news",
        "I-88",
        "a coordinator that takes its role after its metadata has arrived waits for the next"
        " metadata",
        (
            Edit(
                _REGISTRY,
                "            if known is not None and known.leader_epoch >= epoch:\n",
                "            if known is not None and known.leader_epoch > epoch:\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_shard_host.py"
        "::test_who_comes_late_to_its_role_loads_what_is_there_at_once",
    ),
    Mutant(
        "fenced-before-it-was-told",
        "I-135",
        "a member without the push of a newer epoch is fenced for its own epoch",
        (
            Edit(
                "strandline_broker.core.groups.consumer.heartbeat",
                "    if told and beat.member_epoch == max(told):\n",
                "    if told and beat.member_epoch > max(told):\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_lost_and_late.py"
        "::test_who_was_told_of_no_newer_epoch_is_not_fenced_for_its_own",
    ),
    Mutant(
        "taken-back-before-it-was-told",
        "I-133, I-134",
        "a grant that is taken back before its push is never announced, so the member does not"
        " acknowledge the change",
        (
            Edit(
                _GROUPS,
                "        if not full and told == assignment and asked in ({}, told_asked):\n",
                "        if not full and told == assignment:\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_acknowledgement_owed.py"
        "::test_a_grant_that_was_taken_back_untold_is_acknowledged_all_the_same",
    ),
    Mutant(
        "stall-given-back-in-part",
        "P-146, I-179",
        "a stall that began between two checks extends sessions only by the part after the second"
        " check",
        (
            Edit(
                _TIMERS,
                "                    self.on_late(wait_ms + late_ms)\n",
                "                    self.on_late(late_ms - LATE_MS)\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_timers.py"
        "::test_a_pause_is_given_back_whole_whenever_it_began",
    ),
    Mutant(
        "heartbeat-takes-the-news-along",
        "I-88",
        "a member's news is rendered into an answer to a heartbeat, which no stream sends",
        (
            Edit(
                _SESSION_RPC,
                "        host.ask(command, StreamBeat(host, stream, request.seq, on_last))\n",
                "        host.ask(command)\n"
                "        stream.mark(answers_seq=request.seq, full=command.joins)\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session.py"
        "::test_what_is_told_again_does_not_cross_the_acknowledgement_of_it",
    ),
    Mutant(
        "told-by-a-stream-that-has-ended",
        "P-147, I-88",
        "tasks of an ended stream deliver a commit's effects, and their error ends the broker's"
        " process",
        (
            Edit(
                _SESSION_RPC,
                "                self._reading = self._group = None\n",
                "                self._reading = None\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session_ended.py"
        "::test_a_commit_that_is_done_when_its_stream_has_ended_is_told_to_nobody",
    ),
    Mutant(
        "told-by-a-stream-that-has-failed",
        "I-88",
        "tasks of a stream that failed at a write deliver news, and their error ends the task"
        " that brought the news",
        (
            Edit(
                _SESSION_RPC,
                "        except BaseException:\n"
                "            self._group = None"
                "  # the call has ended, and `run` is about to be cancelled\n"
                "            raise\n",
                "",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session.py"
        "::test_news_for_a_stream_that_has_just_failed_are_nobodys",
    ),
)
