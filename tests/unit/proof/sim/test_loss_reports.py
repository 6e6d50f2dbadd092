"""I-53: a loss is looked for where the log that stands for all replicas still begins, and what was
known of it by those who gave it up is in the report.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import pytest

from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.losses import LossReport
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.partition.losses import check_reported
from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.ids import BrokerId, LeaderEpoch, TopicId

FIRST = Entry(0, 1, 0, 6, None)
OLD, NEW = Entry(1, 2, 0, 7, (0, 0)), Entry(1, 2, 1, 8, (0, 0))
"""What a deposed leader has appended at offset 1, and what was committed there."""
LAST = Entry(2, 3, 1, 9, (1, 1))
TOPIC: Final = TopicId(bytes(16))
KEY: Final = (TOPIC, 0)
ELECTED = LossReport("t", TOPIC, 0, LeaderEpoch(3), BrokerId(2), elected_uncleanly=True)
TOLD = replace(ELECTED, start=1, end=4, committed=3, brokers=(BrokerId(1),))


def log_of(*entries: Entry) -> LogView:
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), "/data/t-0")
    view.entries = list(entries)
    return view


def ghost_of(*entries: Entry) -> Committed:
    ghost = Committed(0, min_insync=2, always=False)
    ghost.on_high_watermark(entries[-1].end, log_of(*entries), "broker-1 t-0")
    return ghost


def check(start: int) -> str:
    ghost = ghost_of(FIRST, NEW, LAST)
    view = log_of(FIRST, OLD, LAST)
    return check_reported(ControllerState(), KEY, ghost, view, start, lambda name, life: True)


def test_a_loss_that_nobody_reports() -> None:
    with pytest.raises(Violation, match="committed offset 1 is lost"):
        check(start=1)


def test_what_was_deleted_is_not_lost() -> None:
    assert check(start=2) == ""


class Lost:
    """Offsets 1 to 3 were committed, and a leader that holds offset 0 alone was elected."""

    def __init__(self) -> None:
        self.ghost = ghost_of(FIRST, NEW, LAST)
        self.log = log_of(FIRST)
        assert self.ghost.on_unclean(3, self.log) == 2
        self.lives = True

    def give_up(self, believed: int) -> None:
        self.ghost.on_given_up("broker-1", 7, [NEW, LAST, Entry(3, 4, 1, 5, (2, 1))], believed)

    def check(self, *reports: LossReport) -> str:
        state = ControllerState(losses=reports)
        return check_reported(
            state, KEY, self.ghost, self.log, 0, lambda name, life: self.lives and life == 7
        )


def test_a_loss_that_nobody_knew_is_reported_by_its_election() -> None:
    assert Lost().check(ELECTED) == "loss reported"
    with pytest.raises(Violation, match="no election is reported"):
        Lost().check(replace(TOLD, elected_uncleanly=False))


def test_what_somebody_gave_up_is_in_the_range() -> None:
    lost = Lost()
    lost.give_up(believed=3)
    assert lost.check(TOLD) == "loss reported with a count"
    for wrong in (ELECTED, replace(TOLD, start=2), replace(TOLD, end=2)):
        with pytest.raises(Violation, match="in no range that is reported"):
            lost.check(wrong)


def test_what_nobody_knew_may_be_lost_where_a_report_says_so() -> None:
    lost = Lost()
    assert lost.check(replace(ELECTED, unknown_from=1)) == "loss reported"
    with pytest.raises(Violation, match=r"offset 1 is lost, and no report says that it is, or may"):
        lost.check(replace(ELECTED, unknown_from=2))
    assert lost.check(replace(TOLD, unknown_from=2)) == "loss reported"
    lost.ghost.reports_forgotten = True
    assert lost.check(replace(ELECTED, unknown_from=2)) == "loss reported"


def test_what_was_committed_after_a_loss_may_be_lost_again() -> None:
    lost = Lost()
    lost.ghost.excused = "all lost their power"
    again = Entry(1, 2, 4, 3, (0, 0))
    lost.ghost.on_high_watermark(2, log_of(FIRST, again), "broker-1 t-0")
    assert list(lost.ghost.promised.values()) == [again]
    with pytest.raises(Violation, match="offset 1 is lost"):
        lost.check(replace(ELECTED, unknown_from=2))


def test_another_partition_s_report_is_none() -> None:
    lost = Lost()
    lost.give_up(believed=3)
    with pytest.raises(Violation, match="in no range"):
        lost.check(ELECTED, replace(TOLD, partition=1))


def test_what_was_known_to_be_committed_is_counted() -> None:
    lost = Lost()
    lost.give_up(believed=3)
    with pytest.raises(Violation, match=r"2 of the lost offsets were known .* and 1 are reported"):
        lost.check(replace(TOLD, committed=2))


def test_what_was_not_known_to_be_committed_need_not_be_counted() -> None:
    lost = Lost()
    lost.give_up(believed=2)
    assert lost.check(replace(TOLD, committed=2)) == "loss reported with a count"


def test_offsets_are_counted_once_whatever_has_stood_there() -> None:
    lost = Lost()
    later = Entry(1, 2, 4, 3, (0, 0))
    lost.ghost.on_high_watermark(2, log_of(FIRST, later), "broker-2 t-0")
    assert lost.ghost.on_unclean(5, lost.log) == 1
    lost.give_up(believed=3)
    lost.ghost.on_given_up("broker-2", 7, [later], believed=2)
    assert lost.check(TOLD) == "loss reported with a count"
    with pytest.raises(Violation, match=r"2 of the lost offsets were known .* and 1 are reported"):
        lost.check(replace(TOLD, committed=2))


def test_a_process_that_died_before_it_was_heard_has_told_nothing() -> None:
    lost = Lost()
    lost.give_up(believed=3)
    lost.lives = False
    assert lost.check(ELECTED) == "loss reported"


def test_a_reported_loss_is_permitted_by_the_topic_or_the_power_alone() -> None:
    ghost, log = ghost_of(FIRST, NEW, LAST), log_of(FIRST)
    state = ControllerState(losses=(TOLD,))
    with pytest.raises(Violation, match=r"I-17: .*nothing permits that"):
        check_reported(state, KEY, ghost, log, 0, lambda name, life: True)
    ghost.excused = "all lost their power"
    assert check_reported(state, KEY, ghost, log, 0, lambda name, life: True) == "loss reported"


def test_what_the_new_leader_holds_stays_committed() -> None:
    lost = Lost()
    assert (lost.ghost.end, lost.ghost.last, lost.ghost.seen_to) == (1, FIRST, 3)
    with pytest.raises(Violation, match="I-14"):
        lost.ghost.check_complete(log_of(), "I-14", "broker-2")
    with pytest.raises(Violation, match="I-41"):
        lost.ghost.on_cut([FIRST], "broker-1", "cut to 0", start=0, unread=None)
    assert not lost.ghost.on_cut([NEW, LAST], "broker-1", "cut to 1", start=0, unread=None)


def test_what_a_deposed_leader_commits_late_is_lost_too() -> None:
    lost = Lost()
    late = Entry(3, 4, 1, 5, (2, 1))
    lost.ghost.on_late_high_watermark(4, log_of(FIRST, NEW, LAST, late))
    assert late.identity in lost.ghost.lost
    assert (lost.ghost.end, lost.ghost.seen_to) == (1, 4)


def test_what_one_election_has_cost_the_next_may_bring_back() -> None:
    lost = Lost()
    assert lost.ghost.on_unclean(4, log_of(FIRST, NEW)) == 0
    assert (lost.ghost.end, lost.ghost.last) == (2, NEW)


def test_a_leader_alone_may_lose_what_only_it_has() -> None:
    lost = Lost()
    lost.ghost.on_power_lost("broker-2", log_of(FIRST), log_of(), counted=True, wiped=False)
    assert lost.ghost.excused is not None
    lost = Lost()
    lost.ghost.on_in_sync(2)
    lost.ghost.on_power_lost("broker-2", log_of(FIRST), log_of(), counted=True, wiped=False)
    assert lost.ghost.excused is None
