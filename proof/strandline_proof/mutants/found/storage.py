"""Bugs that logs and disks once had, under the plans that found them."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_CUT: Final = "strandline_broker.storage.log.log"
_DIRECTORY: Final = "strandline_broker.storage.directory.directory"
_PUSH: Final = "strandline_broker.hosts.member.push"
_RECOVERY: Final = "strandline_broker.storage.log.recovery"
_SEGMENT: Final = "strandline_broker.storage.segment.segment"

_STRUCK_TWICE: Final = tuple(
    fault
    for at_s, node in ((2.5, "broker-1"), (5.5, "broker-2"), (8.0, "broker-3"))
    for fault in (
        Fault(at_s, "bit-flip", {"node": node, "file": "log", "bits": 1, "restart_s": 0.0}),
        Fault(
            at_s + 0.01,
            "file-flip",
            {"node": node, "file": "recovery-point", "bits": 1, "stops": False, "down_s": 0.3},
        ),
    )
)
"""A bit of a log flips, and a bit of the recovery points before the log's bit is read."""

_NO_ROOM_AFTER_AN_ELECTION: Final = tuple(
    fault
    for at_s in (1.0, 5.0)
    for fault in (
        Fault(at_s, "isolate", {"node": "leader-0", "for_s": 2.2, "hold": False}),
        Fault(
            at_s + 0.05, "disk-full", {"node": "other-0", "for_s": 3.0, "room": 0}, "leader", 0.3
        ),
    )
)
"""A deposed leader has flushed records that it must truncate, and its disk is full by then."""

FOUND_IN_STORAGE: Final = (
    Mutant(
        "log-start-goes-with-its-checkpoint",
        "I-75, I-76",
        "a log whose log-start checkpoint is lost begins with its first segment, wherever its"
        " epochs begin",
        (
            Edit(
                _RECOVERY,
                "max(base, expected.log_start, self._first_of_epochs(base))",
                "max(base, expected.log_start)",
            ),
        ),
        Needs(corpus="a-flipped-log-start"),
    ),
    Mutant(
        "epochs-believed-against-the-batches",
        "I-5, I-7",
        "an epoch checkpoint is trusted where it contradicts durable batches",
        (
            Edit(
                _RECOVERY,
                "        if epochs is None or not is_contradicted(\n"
                "            epochs, self._segments, below=self._expected.recovery_point\n"
                "        ):\n",
                "        if epochs is None or not is_contradicted(epochs, (), below=0):\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_recovery.py"
        "::test_a_checkpoint_of_epochs_that_durable_batches_contradict_is_not_believed",
    ),
    Mutant(
        "times-believed-against-the-batches",
        "I-78",
        "the last entry of a time index is trusted against its batch: a flipped bit makes a"
        " segment's largest timestamp too early, and lookups by time pass over its records",
        (
            Edit(
                "strandline_broker.storage.log.sealed_end",
                "if largest != latest[0] and segment.is_contradicted([latest]):\n",
                "if largest != latest[0] and segment.is_contradicted([]):\n",
            ),
        ),
        Needs(corpus="passed-over-by-a-flipped-time"),
    ),
    Mutant(
        "cut-by-headers-alone",
        "I-1, I-15",
        "a truncation does not read the kept part of the segment: a length that the disk has"
        " changed decides the position of the cut",
        (
            Edit(
                _SEGMENT,
                "        recent = kept.activate(position, end_offset, crc=True,"
                " gaps_below=gaps_below, low=low)\n",
                "        recent = kept.activate(position, end_offset, crc=False,"
                " gaps_below=gaps_below, low=low)\n",
            ),
            Edit(
                _SEGMENT,
                "        if kept.size != position or not (ends == end_offset or ends < end_offset"
                " <= gaps_below):\n",
                "        if ends < 0:\n",
            ),
        ),
        Needs(corpus="cut-behind-a-batch-of-another-length"),
    ),
    Mutant(
        "cut-at-a-misread-place",
        "I-7, I-15",
        "a truncation cuts at a wrong position if the disk misreads the batches on the way there",
        (
            Edit(
                _CUT,
                "        if bad.offset < offset:\n            raise\n"
                "        return bad.position, offset\n",
                "        return bad.position, min(offset, bad.offset)\n",
            ),
        ),
        Needs(corpus="a-cut-at-a-place-that-was-misread"),
    ),
    Mutant(
        "scrub-of-a-segment-that-was-cut",
        "P-34, I-41",
        "the scrub compares a segment that was cut before its turn with its old length",
        (
            Edit(
                "strandline_broker.storage.log.segment_check",
                "        if not self._is_current:\n            return ()\n",
                "",
            ),
        ),
        Needs(corpus="cut-while-the-scrub-reads"),
    ),
    Mutant(
        "epochs-cut-before-the-log-start-lasts",
        "I-5, I-74",
        "a log start that rose while retention waited for an earlier one truncates the epochs too",
        (
            Edit(
                "strandline_broker.hosts.upkeep.log_retention",
                "        start = log.state.durable_start",
                "        start = log.log_start_offset",
            ),
        ),
        Needs(corpus="epochs-cut-before-the-log-start-lasts"),
    ),
    Mutant(
        "sound-as-soon-as-it-is-cut",
        "I-24, I-39",
        "a replica that has cut records to heal reports itself sound before it has copied them"
        " again",
        (
            Edit(
                "strandline_broker.hosts.upkeep.damage_watch",
                "    if partition.healing or log.damaged_ranges",
                "    if log.damaged_ranges",
            ),
        ),
        Needs(corpus="healed-replica-asked-for-on-an-old-fetch"),
    ),
    Mutant(
        "who-failed-once-never-leads",
        "P-79, I-88",
        "a broker that once could not take its role is not elected after it has applied a snapshot",
        (
            Edit(
                "strandline_broker.hosts.controller.push_answers",
                "        if came or may_lead_again(self._state, *who, failed=failed, as_of=as_of):"
                "\n",
                "        if None in came:\n",
            ),
        ),
        history="tests/unit/broker/hosts/controller/test_push_answers.py"
        "::test_a_last_member_leads_again_once_it_has_applied_a_snapshot",
    ),
    Mutant(
        "push-not-recorded-and-not-asked-again",
        "I-53, I-88",
        "a broker that could not record a push does not request it again, and its log ends stay"
        " unreported",
        (
            Edit(
                _PUSH,
                "            self.streams.ask_later()\n"
                "            return self._answer(envelope, error=refusal,",
                "            return self._answer(envelope, error=refusal,",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_push.py"
        "::test_where_a_log_ends_is_told_once_the_push_can_be_recorded",
    ),
    Mutant(
        "no-room-and-not-asked-again",
        "I-88",
        "a broker that had no room for a replica or a role does not request the push again",
        (
            Edit(
                _PUSH,
                "        if self.envelopes.lacks_something:\n"
                "            self.streams.ask_later()\n",
                "",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_push.py"
        "::test_what_a_full_disk_kept_from_being_applied_is_asked_for_again",
    ),
    Mutant(
        "limit-outlives-the-log-start",
        "I-75",
        "the checkpoint limit of an earlier cut lowers a log start that was written and reported"
        " since",
        (
            Edit(
                "strandline_broker.storage.files.checkpoint_limits",
                "            elif shared == LOG_STARTS and shared in limit.named"
                " and offset > limit.offset:\n",
                "            elif shared == LOG_STARTS and offset < 0:\n",
            ),
        ),
        Needs(corpus="log-start-under-a-limit"),
    ),
    Mutant(
        "empty-log-moves-without-a-limit",
        "I-75",
        "an empty log restarts at a later offset while the log-start checkpoint still says 0:"
        " after a restart its first segment seems to be missing",
        (Edit(_CUT, "max(log.log_end_offset, offset)", "log.log_end_offset"),),
        Needs(corpus="an-empty-log-that-began-anew"),
    ),
    Mutant(
        "log-start-counts-for-a-later-limit",
        "I-75",
        "a log start taken before the log restarted behind it is written afterwards and counts:"
        " after a restart the records between the two seem to be missing",
        (
            Edit(
                _DIRECTORY,
                "self._checkpoints.write(LOG_STARTS, offsets, self._logs, taken)",
                "self._checkpoints.write(LOG_STARTS, offsets, self._logs)",
            ),
        ),
        Needs(corpus="log-start-of-before-it-began-anew"),
    ),
    Mutant(
        "old-promises-outlive-a-creation",
        "I-7, P-51",
        "a replica is created before the checkpoints of its predecessor are revoked",
        (
            Edit(
                _DIRECTORY,
                "            limits.add(0)"
                "  # before the directory counts as a partition's whose log is lost\n"
                "        yield\n"
                "        begun = yield from beginning(self._fs, path, new, is_made=is_made)\n",
                "            pass\n"
                "        yield\n"
                "        begun = yield from beginning(self._fs, path, new, is_made=is_made)\n"
                "        if self._checkpoints.may_name((new.topic, new.partition)):\n"
                "            limits.add(0)\n",
            ),
        ),
        Needs(corpus="made-anew-on-a-failing-disk"),
    ),
    Mutant(
        "no-room-for-a-cut-is-half-a-cut",
        "I-88",
        "a truncation that had no room to begin counts as failed half-way",
        (
            Edit(
                _CUT,
                "    _limit_checkpoints(log, end_offset, log.log_end_offset)\n    try:\n",
                "    try:\n        _limit_checkpoints(log, end_offset, log.log_end_offset)\n",
            ),
        ),
        Needs(
            topology={"flush_policy": "always", "crowd": 30},
            aimed=_NO_ROOM_AFTER_AN_ELECTION,
            alone=True,
        ),
    ),
    Mutant(
        "misread-is-served",
        "P-34, I-1",
        "a misread returns batches of another offset with right CRCs, and they are served",
        (
            Edit(
                "strandline_broker.storage.log.reader",
                "    records, at, offset = read.records, 0, start\n",
                "    records, at, offset = read.records, 0, start\n"
                "    if size_is_right := len(read.records) == run[1] - run[0]:\n"
                "        return read\n"
                "    assert not size_is_right\n",
            ),
        ),
        Needs(kinds=("misread", "misread", "kill")),
    ),
    Mutant(
        "lost-recovery-point-is-zero",
        "I-7",
        "a recovery point whose checkpoint is lost counts as 0, so unreadable batches above it"
        " count as a torn tail",
        (
            Edit(
                _DIRECTORY,
                "                recovery_point_lost=limits.is_lost\n"
                "                or self._checkpoints.has_lost(RECOVERY_POINTS, key),\n",
                "                recovery_point_lost=False,\n",
            ),
        ),
        Needs(topology={"segment_bytes": 400}, kinds=("kill",), aimed=_STRUCK_TWICE),
    ),
    Mutant(
        "failed-flush-forgotten-by-the-next-process",
        "P-24, I-93",
        "a failed flush is not noted for the next process",
        (
            Edit(
                _DIRECTORY,
                "                flush_failed=has_failed_flush(self._fs, self.path),\n",
                "                flush_failed=False,\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_recovery_rewrite.py"
        "::test_what_a_failed_fsync_gave_up_is_durable_after_the_next_start",
    ),
    Mutant(
        "active-segment-never-looked-at-again",
        "I-88",
        "the scrub reads sealed segments alone, so a misread batch of the active segment stays"
        " marked",
        (
            Edit(
                "strandline_broker.hosts.upkeep.scrubber",
                "    return [*sealed, active] if marked else sealed\n",
                "    return sealed if marked else [*sealed]\n",
            ),
        ),
        Needs(topology={"scrub_ms": 400, "segment_bytes": 1 << 20}, kinds=("misread", "kill")),
    ),
    Mutant(
        "what-waits-for-its-flush-is-not-asked-for",
        "I-88",
        "a partition that a fetch leaves out until its flush, under flush.policy=always, is"
        " fetched only together with another one",
        (
            Edit(
                "strandline_broker.hosts.fetching.fetchers",
                "        for fetcher in self._by_leader.values():\n"
                "            fetcher.on_flushed(key)\n",
                "        pass\n",
            ),
        ),
        history="tests/integration/test_replication.py"
        "::test_what_waits_for_its_flush_is_asked_for_right_after_it",
    ),
    Mutant(
        "told-though-it-was-dropped",
        "I-88",
        "a fetch session counts news as sent to a replica though the replica has dropped the"
        " answer",
        (
            Edit(
                "strandline_broker.hosts.fetching.session_partitions",
                "        self._kept[key] = _Kept(position)\n",
                "        told = None if kept is None else kept.told\n"
                "        self._kept[key] = _Kept(position, told)\n",
            ),
        ),
        history="tests/integration/test_replication.py"
        "::test_who_asks_again_is_told_the_watermark_again",
    ),
    Mutant(
        "broken-off-creation-bars-its-name",
        "P-51, I-88",
        "a creation that broke off on a full disk blocks the next topic of that name",
        (
            Edit(
                "strandline_broker.storage.directory.partition_identity",
                "    if (found, new.partition) not in hosted and (is_ours or not is_open):\n",
                "    if (found, new.partition) not in hosted and is_ours:\n",
            ),
        ),
        Needs(kinds=("topic-recreate", "topic-recreate", "disk-full", "kill")),
    ),
    Mutant(
        "cut-away-and-still-open",
        "I-182",
        "a descriptor that waits for a flush of a truncated segment stays open while the segment"
        " is referenced",
        (
            Edit(
                "strandline_broker.storage.segment.open_segments",
                "            segment.unsynced = ()\n",
                "            pass\n",
            ),
        ),
        Needs(corpus="cut-before-its-end-was-flushed"),
    ),
    Mutant(
        "log-that-did-not-open-counts-as-flushed",
        "P-24, I-93",
        "a clean stop removes the note of a failed flush though a log did not open",
        (Edit(_DIRECTORY, " and self.partition_dirs.are_among(self._logs):\n", ":\n"),),
        Needs(corpus="stopped-with-a-log-that-did-not-open"),
        history="tests/unit/broker/storage/log/test_recovery_rewrite.py"
        "::test_a_shutdown_flushes_nothing_of_what_did_not_open",
    ),
)
