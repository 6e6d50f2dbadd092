"""Bugs of the windows between memory, disk and what others are told: one step overtakes another
that it should have waited for, where the disk takes its time or the power goes in between.
"""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_FETCHER: Final = "strandline_broker/hosts/fetcher.py"
_RETENTION: Final = "strandline_broker/hosts/log_retention.py"
_STARTS: Final = "strandline_broker/hosts/log_starts.py"
_LOADING: Final = "strandline_broker/hosts/producer_loading.py"
_LOG: Final = "strandline_broker/storage/log.py"
_STATE: Final = "strandline_broker/storage/log_state.py"
_RECOVERY: Final = "strandline_broker/storage/recovery.py"
_SHARED: Final = "strandline_broker/storage/shared_checkpoints.py"

OVERTAKING: Final = (
    Mutant(
        "log-start-told-before-it-lasts",
        "I-74, I-75",
        "a follower reports a log start that no checkpoint of its own holds yet",
        (
            Edit(
                _FETCHER,
                "log_start_offset=log.state.durable_start,",
                "log_start_offset=log.log_start_offset,",
            ),
        ),
    ),
    Mutant(
        "segments-dropped-before-the-log-start-lasts",
        "I-74, I-75",
        "retention removes files before the checkpoint says that the log begins behind them",
        (
            Edit(
                _RETENTION,
                "        await self._log_starts.durable(log)\n        start = ",
                "        start = ",
            ),
        ),
    ),
    Mutant(
        "later-log-start-called-durable",
        "I-74, I-75",
        "a log start that rose while the one before it was written counts as written too",
        (
            Edit(
                _STARTS,
                "log.log_start_is_durable(start, beginnings[log])",
                "log.log_start_is_durable(log.log_start_offset, log.state.beginnings)",
            ),
        ),
    ),
    Mutant(
        "appends-during-a-flush-called-durable",
        "P-23, I-93",
        "what was appended while a flush ran counts as flushed by it",
        (
            Edit(
                _LOG,
                "self.state.flush(ticket.generation, ticket.end_offset, ticket.rolls)",
                "self.state.flush(ticket.generation, self.log_end_offset, ticket.rolls)",
            ),
        ),
    ),
    Mutant(
        "flush-does-not-see-a-cut",
        "P-24, I-7",
        "a flush that a cut has overtaken calls durable what was appended in its place",
        (
            Edit(
                _STATE,
                "        if generation != self.truncations:\n            return False\n",
                "        generation, end = self.truncations, min(end, self.end)\n",
            ),
        ),
    ),
    Mutant(
        "limit-of-a-later-cut-removed",
        "I-7, I-13",
        "a checkpoint that was written before a cut takes away what says that it counts no more",
        (
            Edit(
                _SHARED,
                "log.limits.written(current, name, offset)",
                "log.limits.written(log.limits.current(), name, offset)",
            ),
        ),
    ),
    Mutant(
        "what-a-start-has-read-is-not-flushed",
        "P-23, I-7, I-93",
        "a start calls durable what a killed process has left in the page cache, and syncs nothing",
        (
            Edit(
                _RECOVERY,
                "            segment.view().file.sync()\n",
                "            segment.view().file.size()\n",
            ),
        ),
    ),
    Mutant(
        "producers-of-the-last-snapshot-alone",
        "P-39, I-58",
        "a start knows of producers what their last snapshot says, so a retry is appended again",
        (
            Edit(
                _LOADING,
                "log.replay(start)",
                "log.replay(start if newest is None else log.log_end_offset)",
            ),
        ),
    ),
)
