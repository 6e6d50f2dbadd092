"""Bugs of a leader: its counts, its answers, its changes of the ISR."""

from __future__ import annotations

from typing import Any, Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_LEADER: Final = "strandline_broker.core.replication.leader"
_REMOTE: Final = "strandline_broker.core.replication.remote_replica"
_APPENDS: Final = "strandline_broker.hosts.replica.appends"
_READS: Final = "strandline_broker.hosts.replica.reads"
_ROLES: Final = "strandline_broker.hosts.replica.roles"
_LEADING: Final = "strandline_broker.hosts.replica.leading"
_PARTITION: Final = "strandline_broker.hosts.replica.partition"
_SESSION: Final = "strandline_broker.hosts.fetching.session"
_ISR_CHANGES: Final = "strandline_broker.hosts.replica.isr_changes"

_NET: Final = ("partition", "isolate", "lossy-link", "slow-link", "pause")
_DEATH: Final = ("kill", "power", "pause", "isolate")

_BOTH_WAYS: Final[dict[str, Any]] = {"hold": False, "one_way": False}
_CONTROLLER_DIES: Final = tuple(
    Fault(at_s, "kill", {"node": "controller", "restart_s": 0.4}, "isr", delay_s)
    for at_s, delay_s in ((1.0, 0.0), (3.5, 0.001), (6.0, 0.0))
)
"""The controller dies right after it has committed a change of an ISR: its answer is lost."""

_NO_ANSWER: Final = tuple(
    Fault(at_s, "partition", {"a": "leader-0", "b": b, "for_s": for_s, **_BOTH_WAYS})
    for start_s in (1.0, 5.0)
    for at_s, b, for_s in ((start_s, "other-0", 3.0), (start_s + 1.35, "controller", 0.9))
)
"""A leader asks to remove a member from which it gets no fetch, and gets no answer to
that either.
"""

_QUIET_RETURN: Final = tuple(
    fault
    for start_s, node in ((1.5, "broker-2"), (5.5, "broker-3"))
    for fault in (
        Fault(start_s, "power", {"nodes": [node], "restart_s": 1.6, "survival": 0.0}),
        Fault(start_s + 0.01, "pause", {"node": "writer", "for_s": 3.0}),
    )
)
"""A broker forgets records, and no client writes until it is back."""

LEADING: Final = (
    Mutant(
        "high-watermark-over-committed-isr",
        "P-5, I-9, I-16",
        "the high watermark is computed over the ISR that the leader has confirmed, without the"
        " member that its open proposal adds",
        (
            Edit(
                _LEADER,
                "joins = () if self._proposal is None else sorted(self._proposal.joins)",
                "joins: list[IsrMember] = []",
            ),
        ),
    ),
    Mutant(
        "lost-answer-taken-for-a-refusal",
        "P-6, I-28",
        "a leader withdraws an AlterPartition without an answer, though the controller may have"
        " committed it",
        (
            Edit(
                _LEADER,
                "            proposal.unsure = True\n        proposal.retry_later(now_ms)\n",
                "            self._proposal = None\n            return self._advance()\n"
                "        proposal.retry_later(now_ms)\n",
            ),
        ),
        Needs(kinds=("pause", "kill"), aimed=_CONTROLLER_DIES),
    ),
    Mutant(
        "alter-partition-never-retried",
        "P-59, I-29",
        "an ISR change whose answer was lost stays open for ever",
        (Edit(_LEADER, "        proposal.retry_later(now_ms)\n", "        pass\n"),),
        Needs(topology={"partitions": 2}, kinds=("pause", "kill"), aimed=_CONTROLLER_DIES),
    ),
    Mutant(
        "leaver-not-counted-before-commit",
        "P-5, I-9, I-16",
        "a leader ignores a member from the moment that it proposes to remove it",
        (
            Edit(
                _LEADER,
                "counted = {m.broker_id: m.broker_epoch for m in self.maximal_isr}",
                "asked = self.isr if self._proposal is None else self._proposal.request.isr\n"
                "        counted = {m.broker_id: m.broker_epoch for m in self.maximal_isr"
                " if m in asked}",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "join-below-epoch-start",
        "P-10, I-24",
        "a follower that has reached the high watermark joins the ISR, wherever the leader's epoch"
        " begins",
        (Edit(_LEADER, "max(self.high_watermark, self.epoch_start)", "self.high_watermark"),),
        Needs(moments=("leader-dies-at-a-shrink",)),
    ),
    Mutant(
        "join-before-caught-up",
        "P-10, I-24",
        "any follower that fetches joins the ISR",
        (
            Edit(
                _LEADER,
                "        if follower.log_end_offset < max(self.high_watermark, self.epoch_start):\n"
                "            return False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "join-waits-for-high-watermark",
        "P-74, I-89",
        "no replica joins the ISR before the high watermark has reached the epoch's start",
        (
            Edit(
                _LEADER,
                "        if self._state.recovering:\n"
                "            return False  # the ISR stays {leader}",
                "        if self._state.recovering or not self.end_offset_known:\n"
                "            return False  # the ISR stays {leader}",
            ),
        ),
    ),
    Mutant(
        "joins-not-looked-for",
        "P-74, I-89",
        "a replica that holds everything is not proposed when it may join, unless it sends"
        " another position",
        (
            Edit(
                _LEADING,
                "        if self.machine.may_grow:\n",
                "        if self.machine.leader_epoch < 0:\n",
            ),
        ),
    ),
    Mutant(
        "new-leader-wakes-nobody",
        "P-66, I-88",
        "a fetch that arrives before the leader has applied its epoch is not served when it has",
        (
            Edit(
                _PARTITION,
                "        self.role = role\n        self._tell_expecting()\n",
                "        self.role = role\n",
            ),
        ),
    ),
    Mutant(
        "cold-look-goes-on-without",
        "P-13, I-88",
        "a fetch session that meets cold bytes goes on without them, and does not return to them",
        (
            Edit(
                _SESSION,
                "                await self._partitions.warm(self._cold)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "high-watermark-below-min-isr",
        "P-9, I-9",
        "the high watermark goes on moving with fewer members in the ISR than min.insync.replicas",
        (
            Edit(
                _LEADER,
                '        """Raise the high watermark as far as I-9 and I-29 allow."""\n'
                "        if self.below_min_isr():\n            return []\n",
                '        """Raise the high watermark as far as I-9 and I-29 allow."""\n',
            ),
        ),
    ),
    Mutant(
        "own-min-insync-replicas",
        "P-77, I-91",
        "the leader uses a min.insync.replicas of its own, 1, instead of the controller's",
        (
            Edit(
                _LEADER,
                "self._eff_min_insync = state.eff_min_insync",
                "self._eff_min_insync = 1",
            ),
        ),
    ),
    Mutant(
        "any-incarnation-counts",
        "P-73, I-90",
        "a fetch counts for the member of the ISR with the same broker id, whatever its epoch",
        (
            Edit(
                _REMOTE,
                "    newest = max(e for e in (counted, eligible, seen) if e is not None)\n",
                "    return\n    newest = max(e for e in (counted, eligible, seen)"
                " if e is not None)\n",
            ),
            Edit(
                _LEADER,
                "                assert follower.broker_epoch == counted[broker_id], (broker_id,"
                " follower)\n",
                "",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, moments=("behind-the-leaders-back",)),
    ),
    Mutant(
        "follower-end-never-falls",
        "P-8, I-24",
        "the leader keeps the greatest end offset that a follower ever named, over its restarts",
        (
            Edit(
                _REMOTE,
                "            log_end_offset=fetch_offset,\n",
                "            log_end_offset=max(fetch_offset, self.log_end_offset or fetch_offset),"
                "\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, kinds=("slow-link",), aimed=_QUIET_RETURN),
    ),
    Mutant(
        "member-map-cleared",
        "P-15, I-9",
        "a replica whose position is unknown does not hold the high watermark back",
        (
            Edit(
                _LEADER,
                "                if follower.log_end_offset is None:\n"
                "                    return []\n"
                "                committed",
                "                if follower.log_end_offset is None:\n"
                "                    continue\n"
                "                committed",
            ),
        ),
    ),
    Mutant(
        "leader-counts-what-it-has-not-flushed",
        "P-75, I-9",
        "under flush.policy=always the leader counts its own log end instead of its flushed end",
        (
            Edit(
                _LEADER,
                "self.durable_offset if self._flush_always else self.log_end_offset",
                "self.log_end_offset",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("power", "slow-disk", "crash-point")),
    ),
    Mutant(
        "diverging-fetch-counts",
        "P-35, I-39",
        "a diverging follower's fetch offset counts as replicated",
        (
            Edit(
                _READS,
                "    if diverging is not None:\n"
                "        return diverging\n    if start < log.log_end_offset:\n",
                "    if diverging is not None:\n"
                "        counted = at._replace(\n"
                "            fetch_offset=min(at.fetch_offset, log.log_end_offset)\n"
                "        )\n"
                "        leading.on_follower_fetch(\n"
                "            counted, broker_id=broker_id, broker_epoch=broker_epoch\n"
                "        )\n"
                "        return diverging\n    if start < log.log_end_offset:\n",
            ),
        ),
    ),
    Mutant(
        "divergence-not-noticed",
        "P-2, I-39",
        "the leader does not compare a follower's last epoch with its own history",
        (
            Edit(
                _READS,
                "        if epoch < at.last_fetched_epoch or end < at.fetch_offset:\n",
                "        if end < 0:\n",
            ),
        ),
    ),
    Mutant(
        "consumers-read-to-the-log-end",
        "P-33, I-12",
        "a consumer receives records that are not committed",
        (
            Edit(
                _READS,
                "limit = leading.readable_end(isolation)  # read once (P-33)",
                "limit = partition.log.log_end_offset if leading else 0",
            ),
        ),
    ),
    Mutant(
        "end-offset-before-epoch-start",
        "P-32, I-11",
        "a new leader reports its old high watermark as the end offset",
        (
            Edit(
                _LEADER,
                "return self.high_watermark >= self.epoch_start\n",
                "return self.high_watermark >= 0\n",
            ),
        ),
    ),
    Mutant(
        "acknowledged-when-appended",
        "P-9, I-19",
        "acks=all is answered as soon as the leader has the records",
        (
            Edit(
                _APPENDS,
                "if acks == ACKS_ALL and required_offset > partition.high_watermark:",
                "if acks == ACKS_ALL and required_offset > partition.log.log_end_offset:",
            ),
        ),
    ),
    Mutant(
        "duplicate-acknowledged-at-once",
        "P-41, I-19",
        "a repeated batch is acknowledged before its first copy is committed",
        (
            Edit(
                _APPENDS,
                "        return self._wait(first.required_offset, outcome, acks, on_done)\n",
                "        on_done(outcome)\n        return None\n",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "sequences-not-checked",
        "P-39, I-55, I-56",
        "a repeated batch is appended again",
        (
            Edit(
                _APPENDS,
                "            if isinstance(verdict, Duplicate):\n"
                "                return self._answer_again(verdict, acks, on_done)\n",
                "            if isinstance(verdict, Duplicate) and verdict.last_offset < -1:\n"
                "                return self._answer_again(verdict, acks, on_done)\n",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "waiters-outlive-the-leadership",
        "P-25, I-21",
        "producers that wait for the high watermark get no answer when the leadership ends",
        (
            Edit(
                _LEADING,
                "        self.appends.fail_all(error)\n        self.deletions.on_news()\n",
                "        self.deletions.on_news()\n",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "failed-change-answered-as-committed",
        "P-6, I-29",
        "the broker treats an AlterPartition without an answer as accepted",
        (
            Edit(
                _ISR_CHANGES,
                "            pending.answer(pending.proposa"
                "l.request_id, answers.get(key, failed))\n",
                "            said = answers.get(key, failed)\n"
                "            asked = pending.proposal\n"
                "            if isinstance(said, WireError):\n"
                "                said = IsrAnswer(\n"
                "                    self._broker_id, asked.leader_epoch, asked.isr,\n"
                "                    asked.partition_epoch + 1, 2,\n"
                "                )\n"
                "            pending.answer(asked.request_id, said)\n",
            ),
        ),
        Needs(kinds=_NET, aimed=_NO_ANSWER),
    ),
    Mutant(
        "partition-epoch-without-who-is-offline",
        "I-15, I-16, P-58",
        "a leader uses a new partition epoch before it has the list of offline replicas: it"
        " proposes such a replica, is refused, and the same request adds it late, when it has"
        " healed",
        (
            Edit(
                _ROLES,
                "            offline=self._eligibility.offline(partition.key),\n",
                "            offline=(),\n",
            ),
            Edit(
                "strandline_broker.hosts.member.envelopes",
                "            self._eligibility.tell_leader(partition)\n",
                "",
            ),
        ),
        history="tests/unit/broker/hosts/replica/test_eligibility.py"
        "::test_a_push_that_is_half_applied_has_no_leader_ask_for_whom_it_bars",
    ),
)
