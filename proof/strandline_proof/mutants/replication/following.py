"""Bugs of a follower: its truncations, its trust in answers, its reported log end."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_FOLLOWER: Final = "strandline_broker.core.replication.follower"
_TRUNCATION: Final = "strandline_broker.core.replication.truncation"
_CACHE: Final = "strandline_broker.core.metadata_cache"
_FETCHER: Final = "strandline_broker.hosts.fetching.fetcher"
_PUSHER: Final = "strandline_broker.hosts.controller.pusher"
_PARTITION: Final = "strandline_broker.hosts.replica.partition"
_FOLLOWING: Final = "strandline_broker.hosts.replica.following"
_READS: Final = "strandline_broker.hosts.replica.reads"
_ENVELOPES: Final = "strandline_broker.hosts.member.envelopes"

_FAILOVER: Final = ("kill", "pause", "isolate", "partition", "power")

_UNFLUSHED_NAMED: Final = Edit(
    _FETCHER,
    "            if self._flushes.holds_back(log):\n",
    "            if False:\n",
)

_ENDS_TOO_EARLY: Final = Edit(
    _READS,
    "        if epoch < at.last_fetched_epoch or end < at.fetch_offset:\n",
    "        if at.last_fetched_epoch < partition.leader_epoch:\n"
    "            end -= 1\n"
    "        if epoch < at.last_fetched_epoch or end < at.fetch_offset:\n",
)

_STOPPED_WHILE_IT_APPENDS: Final = tuple(
    fault
    for n in range(5)
    for fault in (
        Fault(0.8 + 1.5 * n, "slow-disk", {"node": "leader-0", "for_s": 1.4, "factor": 50}),
        Fault(1.0 + 1.5 * n, "stop", {"node": "leader-0", "restart_s": 0.2}),
    )
)
"""A leader that is asked to stop follows another one before it ends."""

FOLLOWING: Final = (
    Mutant(
        "truncation-by-high-watermark",
        "P-1, I-40",
        "a follower truncates its log to its high watermark, and never asks where the histories"
        " diverge",
        (
            Edit(
                _FOLLOWER,
                "        self.truncate_to_high_watermark = truncate_to_high_watermark\n",
                "        self.truncate_to_high_watermark = True\n",
            ),
        ),
    ),
    Mutant(
        "told-to-cut-what-is-committed",
        "I-41",
        "a leader reports the end of an earlier epoch one offset too low",
        (_ENDS_TOO_EARLY,),
        Needs(kinds=_FAILOVER),
    ),
    Mutant(
        "cuts-what-is-committed",
        "I-41",
        "a leader reports the end of an earlier epoch one offset too low, and a follower"
        " truncates there, below its own high watermark",
        (
            _ENDS_TOO_EARLY,
            Edit(
                _FOLLOWER,
                "        if offset < high_watermark and not (in",
                "        if offset < 0 and not (in",
            ),
        ),
        Needs(kinds=_FAILOVER),
    ),
    Mutant(
        "one-round-truncation",
        "P-2, I-38",
        "a follower truncates to the end of the leader's epoch, without regard to the end of its"
        " own",
        (
            Edit(
                _TRUNCATION,
                "    if history.latest() <= diverging_epoch:\n",
                "    if diverging_end >= 0:\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, moments=("three-leaders",)),
    ),
    Mutant(
        "high-watermark-of-a-diverging-answer",
        "P-14, I-13",
        "a follower takes the leader's high watermark from an answer that reports a divergence",
        (
            Edit(
                _FOLLOWER,
                "            return self._on_divergence(\n"
                "                answer.diverging, log_start_offset, log_end_offset,"
                " high_watermark, history\n"
                "            )\n",
                "            cut = self._on_divergence(\n"
                "                answer.diverging, log_start_offset, log_end_offset,"
                " high_watermark, history\n"
                "            )\n"
                "            return [AdvanceHighWatermark(Offset(answer.high_watermark)), *cut]\n",
            ),
        ),
    ),
    Mutant(
        "high-watermark-above-the-own-log",
        "P-14, I-13",
        "a follower takes a high watermark beyond its own log's end",
        (
            Edit(
                _TRUNCATION,
                "max(own, log_start_offset, min(leader_high_watermark, log_end_offset))",
                "max(own, log_start_offset, leader_high_watermark)",
            ),
        ),
    ),
    Mutant(
        "answer-to-another-question",
        "P-4, I-42",
        "a follower takes an answer to an older request for one to its newest",
        (
            Edit(
                _FETCHER,
                "            if target is None or target.sent_in > number:\n",
                "            if target is None:\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, moments=("quick-return",)),
    ),
    Mutant(
        "epoch-bump-ignored",
        "P-12, I-44",
        "a new epoch of the same leader begins without a check for divergence",
        (
            Edit(
                _ENVELOPES,
                "        if known is None or state.leader_epoch > known.leader_epoch:\n"
                "            return True\n",
                "        if known is None or state.leader != known.leader:\n"
                "            return True\n",
            ),
        ),
    ),
    Mutant(
        "producers-not-rebuilt-after-a-cut",
        "P-39, I-58",
        "a truncation leaves the producers' state of the records that it cuts",
        (
            Edit(
                _PARTITION,
                "        if log.producers is None:\n            await self.rebuild_producers()\n",
                "        self.take_producers(self.producers)\n",
            ),
        ),
        Needs(kinds=_FAILOVER),
    ),
    Mutant(
        "followers-keep-no-producers",
        "P-40, I-57",
        "a follower does not record the state of producers",
        (
            Edit(
                _FOLLOWING,
                "                producers.on_append(header, now_ms, marker)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "follower-reports-what-it-has-not-flushed",
        "P-75, I-9",
        "under flush.policy=always a follower fetches from an offset that is not durable",
        (
            Edit(
                _FETCHER,
                "        for partition in appended:\n"
                "            await self._flushes.before_fetch(partition.log)\n",
                "",
            ),
            _UNFLUSHED_NAMED,
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("power", "slow-disk", "crash-point")),
    ),
    Mutant(
        "log-start-asks-before-the-flush",
        "P-75, I-9",
        "under flush.policy=always a follower that receives a log start, or begins another"
        " stream, sends a log end that it is still flushing",
        (_UNFLUSHED_NAMED,),
        Needs(
            topology={"flush_policy": "always"},
            kinds=("slow-disk",),
            aimed=tuple(
                Fault(1.0 + 0.3 * n, "delete-records", {"partition": 0, "back": n % 4})
                for n in range(24)
            ),
        ),
    ),
    Mutant(
        "first-push-need-not-be-a-snapshot",
        "P-79, I-34",
        "a broker without metadata applies an envelope that is only a difference, and the"
        " controller's streams begin with what is queued (each stands in for the other)",
        (
            Edit(
                _CACHE,
                "if applied == NOTHING_APPLIED or envelope.prev_metadata_offset != applied:",
                "if applied != NOTHING_APPLIED and envelope.prev_metadata_offset != applied:",
            ),
            Edit(
                _PUSHER,
                "        self._want_full = True\n        self._work = asyncio.Event()\n",
                "        self._want_full = False\n        self._work = asyncio.Event()\n",
            ),
            Edit(
                _PUSHER,
                "        self._queue.clear()\n        self._unanswered.clear()\n"
                "        self._want_full = True\n",
                "        self._unanswered.clear()\n        self._want_full = not self._queue\n",
            ),
        ),
    ),
    Mutant(
        "append-cut-off-before-its-producers",
        "I-58",
        "a follower whose fetch is cancelled appends records without recording their producers",
        (
            Edit(
                _FOLLOWING,
                "        finally:  # a fetch that is cancelled meanwhile has appended all the same"
                " (I-58)\n            self._note_producers(records, appended)\n"
                "            self._flushes.on_copied(log)\n",
                "        self._note_producers(records, appended)\n"
                "        self._flushes.on_copied(log)\n",
            ),
        ),
        Needs(topology={"sends_per_s": 12}, kinds=("slow-link",), aimed=_STOPPED_WHILE_IT_APPENDS),
    ),
    Mutant(
        "push-to-an-earlier-incarnation",
        "P-17, I-32",
        "a broker applies pushes for an earlier incarnation of it",
        (
            Edit(
                _CACHE,
                "        if envelope.broker_epoch != broker_epoch:\n",
                "        if envelope.broker_epoch != broker_epoch and broker_epoch < 0:\n",
            ),
        ),
        history="tests/unit/broker/core/test_metadata_cache.py"
        "::test_a_push_to_another_incarnation_of_this_broker_is_refused",
    ),
    Mutant(
        "older-metadata-accepted",
        "P-79, I-34",
        "a partition's metadata is applied whatever its epochs",
        (
            Edit(
                _ENVELOPES,
                "        if known is None or state.leader_epoch > known.leader_epoch:\n"
                "            return True\n",
                "        if known is None or state.leader_epoch != known.leader_epoch:\n"
                "            return True\n",
            ),
        ),
        equivalent="nothing older can arrive: one stream in the order of the controller's log is"
        " applied (I-81), an envelope that does not follow is refused before (P-79), and along that"
        " log no epoch of a partition falls (I-30, an oracle)",
    ),
    Mutant(
        "stays-where-its-leader-was",
        "I-88",
        "a stream stays connected to the machine that its leader's broker has left, until the"
        " silence is noticed",
        (
            Edit(
                "strandline_broker.hosts.fetching.stream",
                "            if self._endpoint(leader) not in (endpoint, None):\n",
                "            if endpoint is None:\n",
            ),
        ),
        history="tests/unit/broker/hosts/fetching/test_stream.py"
        "::test_a_stream_ends_when_its_leader_has_begun_anew_elsewhere",
    ),
    Mutant(
        "set-back-by-a-late-request",
        "I-25, I-88",
        "a late request of an earlier stream sets a follower's position back for good",
        (
            Edit(
                "strandline_broker.hosts.replica.leading",
                "        if known is not None and at.fetch_offset < known:\n",
                "        if known is not None and at.fetch_offset < 0:\n",
            ),
        ),
        Needs(corpus="set-back-by-a-late-request"),
    ),
    Mutant(
        "watermark-before-the-look",
        "P-14, I-13",
        "a fetch answer carries a watermark for a follower whose new position the leader has not"
        " checked",
        (
            Edit(
                "strandline_broker.hosts.fetching.session_partitions",
                "broker_id >= 0 and kept.noted is not partition.role:\n",
                "broker_id >= 0 and kept.noted is self:\n",
            ),
        ),
        history="tests/unit/broker/hosts/fetching/test_session.py"
        "::test_a_follower_is_told_no_watermark_before_its_history_was_looked_at",
    ),
    Mutant(
        "out-of-range-without-an-epoch",
        "I-45, I-88",
        "an empty log without an epoch, which begins behind its leader's log end, fetches there"
        " again and again, as the leader cannot find a divergence",
        (
            Edit(
                _FOLLOWER,
                "        if start >= 0 and history.latest() == UNKNOWN_EPOCH:\n",
                "        if start >= 0 and history.latest() < UNKNOWN_EPOCH:\n",
            ),
        ),
        history="tests/unit/broker/core/replication/test_follower.py"
        "::test_a_log_without_an_epoch_beyond_the_leaders_end_begins_where_the_leaders_begins",
    ),
)
