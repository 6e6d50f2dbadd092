"""What is excused is excused no further than its reason goes: a cut that heals, a loss that the
minimum permits.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.upkeep.damage_watch import DamageWatch
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.replica.log_starts import LogStartOracle
from strandline_proof.sim.oracles.replica.log_view import Entry
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.oracles.watch import CheckedHistory
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition

FLIP = {"node": "broker-2", "file": "log", "bits": 1, "restart_s": 0.0}
FLIPPED = Fault(3.0, "bit-flip", FLIP)
TINY = {"scrub_ms": 1500, "segment_bytes": 400}


def ran(*faults: Fault, chaos_s: float = 4.0, **topology: Any) -> RunResult:
    return run_plan(Plan(1, Topology(partitions=1, **topology), faults, chaos_s=chaos_s))


def committed(count: int) -> Committed:
    """So many batches of one record, all of them committed."""
    ghost = Committed(0, min_insync=2, always=False)
    for base in range(count):
        entry = Entry(base, base + 1, 0, base, (base - 1, 0) if base > 0 else None)
        ghost.entries.append(entry)
        ghost._committed[entry.identity] = entry
    ghost.end = count
    return ghost


def test_a_cut_that_heals_takes_nothing_below_the_damage() -> None:
    ghost = committed(5)
    ghost.on_damaged("broker-1", ghost.entries[3])
    assert ghost.on_cut(ghost.entries[3:], "broker-1", "cut", start=0, unread=None)
    ghost.on_damaged("broker-1", ghost.entries[3])
    with pytest.raises(Violation, match=r"I-41.*offset 2"):
        ghost.on_cut(ghost.entries[2:], "broker-1", "cut", start=0, unread=None)


def test_who_is_added_again_has_the_damage_it_was_removed_with_if_it_has_its_log() -> None:
    ghost = committed(5)
    for log, has in ((log_of(*ghost.entries), True), (log_of(*ghost.entries[:3]), False)):
        ghost.on_damaged("broker-1", ghost.entries[3])
        ghost.on_removed("broker-1")
        assert not ghost.damaged
        ghost.on_added_again("broker-1", log)
        assert ("broker-1" in ghost.damaged) is has


def test_a_cut_for_what_was_misread_leaves_other_damage_where_it_is() -> None:
    ghost = committed(5)
    ghost.on_damaged("broker-1", ghost.entries[1])
    assert ghost.on_cut(ghost.entries[3:], "broker-1", "cut", start=0, unread=0)
    assert "broker-1" in ghost.damaged
    assert ghost.on_cut(ghost.entries[1:3], "broker-1", "cut", start=0, unread=0)
    assert not ghost.damaged


def test_a_cut_for_what_was_misread_takes_nothing_of_the_segments_before() -> None:
    ghost = committed(5)
    assert ghost.on_cut(ghost.entries[3:], "broker-1", "cut", start=0, unread=3)
    ghost.on_damaged("broker-1", ghost.entries[4])
    with pytest.raises(Violation, match=r"I-41.*offset 2"):
        ghost.on_cut(ghost.entries[2:], "broker-1", "cut", start=0, unread=3)


def test_a_cut_for_what_was_misread_takes_the_batch_over_the_log_start_too() -> None:
    ghost = committed(2)
    ghost.on_high_watermark(5, log_of(*ghost.entries, Entry(2, 5, 0, 2, (1, 0))), "broker-2")
    with pytest.raises(Violation, match=r"I-41.*offset 2"):
        ghost.on_cut(ghost.entries[2:], "broker-1", "cut", start=4, unread=None)
    assert ghost.on_cut(ghost.entries[2:], "broker-1", "cut", start=4, unread=0)


def log_of(*entries: Entry) -> Any:
    """The view of a log that holds these."""
    return SimpleNamespace(
        entries=entries, end=entries[-1].end, holds=lambda entry: entry in entries
    )


def test_what_comes_back_with_a_log_that_begins_behind_what_was_kept() -> None:
    ghost = committed(8)
    first, (kept, *_), back = ghost.entries[:2], ghost.entries[2:], ghost.entries[6:]
    assert ghost.on_unclean(1, log_of(*first, kept)) == 5
    assert ghost.end == 3
    ghost.on_unclean(2, log_of(*back))  # retention had deleted 3 to 5, too, in this log
    assert ghost.end == 8, "its leader may say so at once, without anybody in sync"
    assert ghost.last == back[-1]


def test_a_healing_that_begins_at_the_very_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    real = DamageWatch._heal

    async def heal(self: DamageWatch, partition: Partition) -> None:
        truncate = partition.truncate
        with monkeypatch.context() as patched:
            patched.setattr(partition, "truncate", lambda to: truncate(0))
            await real(self, partition)

    assert ran(FLIPPED, **TINY).sometimes["damage healed"] == 1
    monkeypatch.setattr(DamageWatch, "_heal", heal)
    assert ran(FLIPPED, **TINY).invariant == "I-41"


def power(at_s: float, node: str) -> Fault:
    return Fault(at_s, "power", {"nodes": [node], "restart_s": 0.5, "survival": 0.0})


def test_a_minimum_that_was_lower_for_a_while_permits_no_loss_afterwards() -> None:
    lowered = Fault(1.5, "min-insync", {"value": 1, "for_s": 0.4})
    found = ran(lowered, power(5.0, "broker-3"), power(7.5, "broker-2"), chaos_s=9.0).sometimes
    assert found["configuration altered"] == 2
    assert found["records lost with the power"] == 2
    assert found["loss permitted"] == 0


def test_what_was_said_to_be_deleted_counts_for_each_who_was_there() -> None:
    ghost = committed(30)
    ghost.on_deleted(10, frozenset({"broker-1", "broker-2", "broker-3"}))
    ghost.on_deleted(20, frozenset({"broker-1", "broker-2"}))
    ghost.check_deleted(10, "broker-3")
    with pytest.raises(Violation, match=r"I-75.*below 10"):
        ghost.check_deleted(0, "broker-3")
    with pytest.raises(Violation, match=r"I-75.*below 20"):
        ghost.check_deleted(10, "broker-1")
    ghost.on_removed("broker-3")
    ghost.check_deleted(0, "broker-3")


def test_a_record_that_nobody_has_sent_where_others_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = CheckedHistory.polled

    def polled(self: CheckedHistory, process: int, op: int, read: Any) -> Any:
        if self._oracles.given_up(0):
            read = {k: [(offset, value + 10**6) for offset, value in of] for k, of in read.items()}
        return real(self, process, op, read)

    helix = Fault(4.0, "helix", {"partition": 0})
    settings = {**TINY, "chaos_s": 6.0}
    assert ran(helix, **settings).sound
    monkeypatch.setattr(CheckedHistory, "polled", polled)
    found = ran(helix, **settings)
    assert (found.invariant, "was never sent" in str(found.failure)) == ("history", True)


@pytest.mark.parametrize("retained", [True, False])
def test_retention_of_one_topic_deletes_nothing_of_another(*, retained: bool) -> None:
    oracle = LogStartOracle(Counter())
    oracle.on_retention(200)
    view: Any = SimpleNamespace(end=100, kept_from=lambda offset: 5000)
    partition: Any = SimpleNamespace(
        log=SimpleNamespace(log_start_offset=4), leader=object(), name="compacted-0"
    )
    with nullcontext() if retained else pytest.raises(Violation, match="I-75"):
        oracle.on_change(
            (bytes(16), 0), partition, committed(9), view, opened=False, retained=retained
        )
