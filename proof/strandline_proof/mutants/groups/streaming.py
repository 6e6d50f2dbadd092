"""Bugs between members and their coordinator: streams, and the consumer's view of its group."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_VIEW: Final = "strandline_broker.core.groups.consumer.stream_view"
_SESSIONS: Final = "strandline_broker.hosts.groups.sessions"
_SESSION_RPC: Final = "strandline_broker.rpc.groups.session"
_GROUP_SHARD: Final = "strandline_broker.hosts.groups.group_shard"
_GROUP: Final = "strandline._groups.group"
_COMMITS: Final = "strandline._groups.commits"

STREAMING: Final = (
    Mutant(
        "crossing-beat-believed",
        "P-143, I-134",
        "a heartbeat's list of owned partitions counts though it was sent before the latest grant"
        " arrived",
        (
            Edit(
                _VIEW,
                "    if seen_push == last_push or beat.member_epoch < JOIN_EPOCH:\n"
                "        return beat\n"
                "    return replace(beat, crossed=True)\n",
                "    if seen_push == last_push or beat.member_epoch < JOIN_EPOCH:\n"
                "        return beat\n"
                "    return replace(beat)\n",
            ),
        ),
        history="tests/unit/broker/core/groups/test_acknowledgement_owed.py"
        "::test_who_acknowledged_in_a_message_that_crossed_is_asked_again",
    ),
    Mutant(
        "parked-content-sent",
        "P-144, I-131",
        "a push is rendered when its change is decided, and sent when that is committed",
        (
            Edit(
                _SESSIONS,
                "        if not self._host.may_tell(self, self.group_id, self.member_id):\n"
                "            self._is_parked = True\n"
                "            return None\n"
                "        reply = self._host.render(ToRender(self.group_id, self.member_id,"
                " full=self._full))\n",
                "        if self._kept is None:\n"
                "            self._kept = self._host.render(\n"
                "                ToRender(self.group_id, self.member_id, full=True)\n"
                "            )\n"
                "        if not self._host.may_tell(self, self.group_id, self.member_id):\n"
                "            self._is_parked = True\n"
                "            return None\n"
                "        reply, self._kept = self._kept, None\n",
            ),
            Edit(
                _SESSIONS,
                '        "_is_parked",\n',
                '        "_is_parked",\n        "_kept",\n',
            ),
            Edit(
                _SESSIONS,
                "        self._is_parked = False\n        self._answers_seq = 0\n",
                "        self._is_parked = False\n"
                "        self._kept: BeatAnswer | WireError | None = None\n"
                "        self._answers_seq = 0\n",
            ),
        ),
    ),
    Mutant(
        "end-of-a-stream-removes",
        "I-179",
        "a member whose stream ends is removed from its group",
        (
            Edit(
                _SESSION_RPC,
                "        finally:\n            host.sessions.close(session.stream)\n",
                "        finally:\n"
                "            host.sessions.close(session.stream)\n"
                "            from strandline_broker.core.groups.effects import SessionTimer\n\n"
                "            stream = session.stream\n"
                "            if not stream.is_over:\n"
                "                key = SessionTimer(stream.group_id, stream.member_id)\n"
                "                host.shard.on_timer(key, -1)\n",
            ),
        ),
    ),
    Mutant(
        "open-stream-keeps-the-session",
        "P-152, I-137",
        "an open stream keeps its member's session alive without any heartbeat",
        (
            Edit(
                _GROUP_SHARD,
                "            case SessionTimer():\n"
                "                return SessionEnded(key.group_id, key.member_id)\n",
                "            case SessionTimer():\n"
                "                if self.sessions.tell(key.group_id, (key.member_id,)):\n"
                "                    self.context.timers.start(self.shard, key, 1_000, epoch)\n"
                "                    return Reconcile(key.group_id, ())\n"
                "                return SessionEnded(key.group_id, key.member_id)\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session.py::test_an_open_stream_keeps_no_session",
    ),
    Mutant(
        "older-stream-sends",
        "P-142, I-177",
        "messages of a replaced stream count, and are answered",
        (
            Edit(
                _SESSIONS,
                '        """Nothing of it is applied or sent any more (I-177)."""\n'
                "        self.is_over = True\n",
                '        """Nothing of it is applied or sent any more (I-177)."""\n',
            ),
        ),
        history="tests/golden/test_group_histories_of_members.py::test_14_stale_stream",
    ),
    Mutant(
        "auto-commit-of-the-prefetched",
        "P-113, I-106",
        "auto-commit commits the fetch position instead of the application's position",
        (
            Edit(
                _GROUP,
                "def at_of(position: Position) -> CommitOffset:\n"
                "    return CommitOffset(position.offset, position.epoch)\n",
                "def at_of(position: Position) -> CommitOffset:\n"
                "    return CommitOffset(max(position.offset, position.fetch_offset), "
                "position.epoch)\n",
            ),
        ),
    ),
    Mutant(
        "refused-question-is-a-reset",
        "P-116, I-106",
        "a refused query of offsets counts as an answer without offsets",
        (
            Edit(
                _COMMITS,
                "                whole = from_code(group.error_code, group.error_message)\n"
                "                self._coordinator.failed(whole)\n"
                "                return Fetched({}, dict.fromkeys(keys, whole))\n",
                "                return Fetched(dict.fromkeys(keys, CommitOffset(-1)), {})\n",
            ),
        ),
        history="tests/integration/test_client_group.py::test_what_passes_is_waited_out",
    ),
    Mutant(
        "first-answer-cancelled-by-its-reader",
        "I-88",
        "an unparsable request ends a Fetch stream in its first write without a status: its"
        " client waits for ever",
        (
            Edit(
                "strandline_broker.rpc.records.fetch",
                "        failure = error\n",
                "        raise error\n",
            ),
        ),
        history="tests/unit/broker/rpc/records/test_fetch.py"
        "::test_a_request_that_is_none_does_not_cancel_the_answer_before_it",
    ),
)
