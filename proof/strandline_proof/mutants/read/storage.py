"""Bugs that a reader of the code chose: segments, indexes, cuts, retention."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

READ_IN_STORAGE: Final = (
    Mutant(
        "batch-at-the-limit-is-read",
        "I-12",
        "a consumer near the log's end receives a batch of one record at the high watermark"
        " itself; an election may remove that record",
        (
            Edit(
                "strandline_broker.storage.segment.recent_batches",
                "        j = bisect_left(lasts, limit)\n",
                "        j = bisect_right(lasts, limit)\n",
            ),
        ),
    ),
    Mutant(
        "last-of-equal-times-is-indexed",
        "I-78",
        "the time index names the last of several batches with one largest timestamp, so a lookup"
        " of that time passes over the others",
        (
            Edit(
                "strandline_broker.storage.segment.segment",
                "if header.max_timestamp > self.latest_timestamp and header.record_count > 0:\n",
                "if header.max_timestamp >= self.latest_timestamp and header.record_count > 0:\n",
            ),
        ),
    ),
    Mutant(
        "epoch-that-begins-at-the-cut-stays",
        "I-47, I-88",
        "a truncation leaves the epoch whose first record was cut: a follower that must give up"
        " its whole last epoch sends that epoch again and again, and copies nothing",
        (
            Edit(
                "strandline_broker.storage.log.leader_epochs",
                "        keep = bisect_left(starts, offset)\n",
                "        keep = bisect_right(starts, offset)\n",
            ),
        ),
    ),
    Mutant(
        "place-behind-a-read-in-any-segment",
        "P-34, I-88",
        "the end of the last cold read is remembered by its offset alone: a reader that goes on"
        " in the next segment, or in a cleaned one, starts at a byte position of the old one",
        (
            Edit(
                "strandline_broker.storage.log.reader",
                "known=behind[2] if behind[0] is segment and behind[1] == start else None",
                "known=behind[2] if behind[1] == start else None",
            ),
        ),
    ),
    Mutant(
        "time-index-outlives-a-cut",
        "I-78",
        "a truncation leaves the cut records' times in the time index: a later lookup by time"
        " passes over records that took their place",
        (
            Edit(
                "strandline_broker.storage.segment.segment",
                "            end_offset = self.base_offset\n"
                "        else:\n"
                "            times = times.cut(end_offset)\n",
                "            end_offset = self.base_offset\n",
            ),
        ),
    ),
    Mutant(
        "snapshots-outlive-a-cut",
        "I-58, P-39",
        "a truncation leaves the producers' snapshots above it: a start after the log has grown"
        " past them takes a repetition for new, or a new batch for a repetition",
        (
            Edit(
                "strandline_broker.storage.log.log",
                "    log.snapshots.remove_above(end_offset)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "retention-counts-what-has-gone",
        "I-74",
        "retention by size compares every segment with the log's size before the first deletion:"
        " a log too large by one segment loses all that is committed and sealed",
        (
            Edit(
                "strandline_broker.core.retention",
                "        log_bytes -= segment.size_bytes\n        count += 1\n",
                "        count += 1\n",
            ),
        ),
    ),
    Mutant(
        "due-now-is-never-removed",
        "I-74",
        "files whose delay ends in the very millisecond of the check are dropped from the list"
        " but stay on disk until a restart",
        (
            Edit(
                "strandline_broker.storage.segment.deleted_segments",
                "        due = [path for due_ms, path in self._waiting if due_ms <= now_ms]\n",
                "        due = [path for due_ms, path in self._waiting if due_ms < now_ms]\n",
            ),
        ),
    ),
)
