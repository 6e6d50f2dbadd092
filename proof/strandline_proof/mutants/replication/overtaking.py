"""Bugs of the windows between memory, disk and reports: one step overtakes another that it should
have waited for, while the disk is slow or the power fails.
"""

from __future__ import annotations

from typing import Any, Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_FETCHER: Final = "strandline_broker.hosts.fetching.fetcher"
_RETENTION: Final = "strandline_broker.hosts.upkeep.log_retention"
_STARTS: Final = "strandline_broker.hosts.disks.log_starts"
_LOADING: Final = "strandline_broker.hosts.disks.producer_loading"
_LOG: Final = "strandline_broker.storage.log.log"
_STATE: Final = "strandline_broker.storage.log.state"
_RECOVERY: Final = "strandline_broker.storage.log.recovery"
_SHARED: Final = "strandline_broker.storage.directory.shared_checkpoints"

_NODE: Final = "broker-3"


_RETAINED: Final = {
    "brokers": 3,
    "partitions": 2,
    "segment_bytes": 400,
    "retention_check_ms": 600,
    "sends_per_s": 12,
}
_RETENTION_BEGINS: Final = Fault(0.6, "retention", {"bytes": 200, "for_s": 8.0})


def _at(at_s: float, kind: str, what: dict[str, Any], after: str | None) -> Fault:
    return Fault(at_s, kind, what, after, 0.0 if after is None else 0.01)


def _stands_still(
    at_s: float, point: str, for_s: float, *, count: int = 1, after: str | None = None
) -> Fault:
    what = {"node": _NODE, "point": point, "count": count, "for_s": for_s, "late": False}
    return _at(at_s, "delay-at", what, after)


def _ends(
    at_s: float, node: str, point: str, count: int, *, power: bool, after: str | None = None
) -> Fault:
    what = {"node": node, "point": point, "count": count, "power": power, "restart_s": 0.3}
    return _at(at_s, "crash-at", what, after)


_RISES_WHILE_IT_IS_WRITTEN: Final = Needs(
    topology=_RETAINED,
    aimed=(
        _RETENTION_BEGINS,
        *(
            fault
            for start_s in (0.9, 3.6)
            for fault in (
                _stands_still(start_s, "segment-dropped", 2.5),
                _stands_still(start_s, "log-starts-written", 0.65, after="window"),
                _stands_still(start_s, "log-starts-written", 0.5, count=3, after="window"),
                _ends(start_s, _NODE, "log-starts-written", 4, power=True, after="window"),
            )
        ),
    ),
    alone=True,
)
"""The log start of one log rises while retention drops a segment of another log of the same
follower. It rises to the leader's log start, and again during the write, which is of two files. The
next write stands still until the leader has the report, and the power goes within it.
"""
_ALL_END_BEHIND_IT: Final = Needs(
    topology=_RETAINED,
    aimed=(
        _RETENTION_BEGINS,
        *(
            _ends(start_s, f"broker-{n}", "segment-dropped-renamed", 1, power=False)
            for start_s in (0.9, 3.6, 6.0)
            for n in (1, 2, 3)
        ),
    ),
    alone=True,
)
"""Every broker is killed after it has renamed a segment's files, before the periodic checkpoint. A
start that reads an older log start there takes the deleted records for damage. If the leader still
has them, followers truncate committed records to copy them; if it has the same damage, no replica
can heal. One broker alone gets a later log start from its leader, and all its damage lies below.
"""

_APART: Final = {"a": _NODE, "for_s": 1.4, "hold": False, "one_way": False}
_CUT_WHILE_IT_IS_WRITTEN: Final = Needs(
    topology={
        "brokers": 3,
        "partitions": 2,
        "flush_policy": "always",
        "balance_s": 300,
        "sends_per_s": 12,
    },
    aimed=(
        Fault(1.3, "topic-recreate", {"pause_s": 0.0, "partitions": 1}),
        Fault(1.6, "move-leader", {"partition": 0, "to": 3}),
        *(
            Fault(2.0, "partition", {**_APART, "b": other})
            for other in ("controller", "broker-1", "broker-2")
        ),
        _stands_still(2.05, "recovery-points-written", 3.6),
        Fault(2.05, "power", {"nodes": [_NODE], "restart_s": 0.2, "survival": 0.0}, "window", 3.66),
        _stands_still(3.4, "cut-limited", 0.02),
        Fault(3.41, "isolate", {"node": _NODE, "for_s": 2.5, "hold": False}, "window"),
    ),
    alone=True,
)
"""A leader without followers appends and flushes, and is truncated while its recovery points are
being written. It gets nothing more. All other checkpoints follow that one at once, as a topic is
new and the high watermark has changed. The power goes before the recovery points are written again.
"""

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
        _RISES_WHILE_IT_IS_WRITTEN,
    ),
    Mutant(
        "segments-dropped-before-the-log-start-lasts",
        "I-74, I-41, I-88",
        "retention removes files before the log-start checkpoint has passed them",
        (
            Edit(
                _RETENTION,
                "        await self._log_starts.durable(log)\n        start = ",
                "        start = ",
            ),
        ),
        _ALL_END_BEHIND_IT,
    ),
    Mutant(
        "later-log-start-called-durable",
        "I-74, I-75",
        "a log start that rose while an earlier one was written counts as written too",
        (
            Edit(
                _STARTS,
                "log.log_start_is_durable(start, beginnings[log])",
                "log.log_start_is_durable(log.log_start_offset, log.state.beginnings)",
            ),
        ),
        _RISES_WHILE_IT_IS_WRITTEN,
    ),
    Mutant(
        "appends-during-a-flush-called-durable",
        "P-23, I-93",
        "records appended during a flush count as flushed by it",
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
        "a flush that a truncation has overtaken marks the records appended since as durable",
        (
            Edit(
                _STATE,
                "        if generation != self.truncations:\n            return False\n",
                "        generation, end = self.truncations, min(end, self.end)\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_flush_ticket.py"
        "::test_a_cut_at_any_step_makes_the_ticket_void_or_is_in_it",
    ),
    Mutant(
        "limit-of-a-later-cut-removed",
        "I-7, I-13",
        "a checkpoint written before a truncation removes the limit that the truncation has put"
        " on it",
        (
            Edit(
                _SHARED,
                "log.limits.written(current, name, offset)",
                "log.limits.written(log.limits.current(), name, offset)",
            ),
        ),
        _CUT_WHILE_IT_IS_WRITTEN,
    ),
    Mutant(
        "what-a-start-has-read-is-not-flushed",
        "P-23, I-7, I-93",
        "a start takes a killed process's page cache for durable, and syncs nothing",
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
        "a start restores producers from their last snapshot alone, so a retry is appended again",
        (
            Edit(
                _LOADING,
                "log.replay(start)",
                "log.replay(start if newest is None else log.log_end_offset)",
            ),
        ),
    ),
)
