"""The exhaustive small model: nothing found in our code, and planted protocol bugs found."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.controller.brokers import registration
from strandline_broker.core.controller.partitions import alter_partition, election, isr, recovery
from strandline_broker.core.replication import follower, leader
from strandline_broker.core.replication.follower import FetchPosition, Follower
from strandline_broker.core.replication.leader import Leader
from strandline_proof.model.profiles import COMMITTED, DEEP, ONE_OUT, QUICK
from strandline_proof.model.search import Search
from strandline_proof.model.values import Bounds
from strandline_proof.model.world import World
from strandline_proto.ids import NO_LEADER, UNKNOWN_EPOCH, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.model.search import Report

Patch = pytest.MonkeyPatch
STATES_MAX = 60_000


def explore(bounds: Bounds, *, states_max: int = STATES_MAX, **options: Any) -> Report:
    return Search(World(bounds)).run(states_max=states_max, **options)


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_large_for_every_commit_begins_well(name: str) -> None:
    profile = DEEP[name]
    report = explore(profile.bounds, prefix=profile.start, states_max=1_500)
    assert report.violation is None


@cache
def explored(name: str) -> Report:
    return explore(QUICK[name].bounds)


@pytest.mark.parametrize("name", QUICK)
def test_no_order_of_events_breaks_an_invariant(name: str) -> None:
    report = explored(name)
    assert report.violation is None, "\n".join([report.violation, *report.trace])
    assert report.exhausted
    assert report.states > 5_000


def test_what_may_happen_does_happen() -> None:
    """A step that no search takes would be a hole in the model."""
    taken: dict[str, int] = {}
    for profile in QUICK:
        for name, times in explored(profile).steps.items():
            taken[name] = taken.get(name, 0) + times
    assert sorted(taken) == [
        "answer-arrives",
        "append",
        "asks-again",
        "begins-shutdown",
        "fetch",
        "fetch-is-lost",
        "fetch-is-served",
        "gives-up-waiting",
        "has-answered",
        "is-found-dead",
        "is-killed",
        "is-suspected",
        "is-unfenced",
        "isr-answer-arrives",
        "isr-is-decided",
        "lag-passes",
        "learns",
        "loses-power",
        "restarts",
        "sends-fetch",
        "stops",
    ]


def test_a_search_is_the_same_every_time() -> None:
    first, second = (explore(QUICK["death"].bounds, states_max=3_000) for _ in range(2))
    assert first == second


def test_a_history_begins_where_it_is_told_to() -> None:
    prefix = [("append", 1), ("fetch", 2), ("answer-arrives", 2)]
    report = explore(Bounds(kills=1), prefix=prefix, depth_max=2)
    assert report.depth == 2
    assert report.states < 200
    with pytest.raises(LookupError, match="not possible"):
        explore(Bounds(), prefix=[("is-killed", 1)])


# Planted bugs. Each is a way in which systems of this kind have lost data.


def truncate_by_high_watermark(patch: Patch) -> None:
    """P-1."""
    patch.setattr(follower, "Follower", partial(Follower, truncate_to_high_watermark=True))


def count_the_committed_isr_only(patch: Patch) -> None:
    """P-5: what a proposal adds does not count until its answer comes."""
    patch.setattr(Leader, "maximal_isr", property(lambda self: self.isr))


def accept_fetches_of_any_leader_epoch(patch: Patch) -> None:
    patch.setattr(leader, "check_leader_epoch", lambda *_, **__: None)


def accept_fetches_of_any_incarnation(patch: Patch) -> None:
    """P-73."""
    patch.setattr(leader, "check_incarnation", lambda *_, **__: None)


def join_below_the_start_of_the_epoch(patch: Patch) -> None:
    """P-10."""
    real = Leader._propose_join

    def join(self: Leader, broker_id: Any) -> Any:
        start, self.epoch_start = self.epoch_start, Offset(0)
        try:
            return real(self, broker_id)
        finally:
            self.epoch_start = start

    patch.setattr(Leader, "_propose_join", join)


def commit_below_the_minimum(patch: Patch) -> None:
    patch.setattr(Leader, "below_min_isr", lambda self: False)


def fetch_without_the_epoch_of_the_last_record(patch: Patch) -> None:
    """P-53."""

    def next_fetch(self: Follower, log_end_offset: Offset, latest_epoch: int) -> FetchPosition:
        return FetchPosition(log_end_offset, UNKNOWN_EPOCH, self.leader_epoch)

    patch.setattr(Follower, "next_fetch", next_fetch)


def apply_answers_to_older_questions(patch: Patch) -> None:
    """P-4, I-42."""
    real = Follower.on_answer

    def on_answer(self: Follower, request: Any, answer: Any, **log: Any) -> Any:
        if self.may_fetch:
            request = self.next_fetch(log["log_end_offset"], log["history"].latest())
        return real(self, request, answer, **log)

    patch.setattr(Follower, "on_answer", on_answer)


def alter_without_comparing(patch: Patch) -> None:
    real = alter_partition._judge

    def judge(state: Any, broker_id: Any, proposal: Any) -> Any:
        now = state.partition(proposal.topic_id, proposal.partition).partition_epoch
        return real(state, broker_id, dataclasses.replace(proposal, partition_epoch=now))

    patch.setattr(alter_partition, "_judge", judge)


def let_the_fenced_join(patch: Patch) -> None:
    """P-7."""
    patch.setattr(alter_partition, "_check_member", lambda *_: None)


def elect_anybody(patch: Patch) -> None:
    def elect(partition: Any, isr: Any, brokers: Any, *, elr: Any = ()) -> Any:
        alive = [b for b in partition.replicas if b in brokers and brokers[b].eligible]
        return alive[-1] if alive else NO_LEADER

    patch.setattr(election, "elect", elect)


def keep_a_restarted_broker_in_the_isr(patch: Patch) -> None:
    patch.setattr(registration, "leave_all", lambda *_, **__: [])


def keep_the_eligible_when_the_isr_is_whole(patch: Patch) -> None:
    """I-50: the leader commits without them from then on."""
    real = isr.elr_after

    def elr_after(partition: Any, members: Any, *, min_isr: int, lost: Any) -> Any:
        return real(partition, members, min_isr=9, lost=lost)

    patch.setattr(isr, "elr_after", elr_after)


def keep_an_unclean_restart_in_the_elr(patch: Patch) -> None:
    """P-9, I-51."""
    real = election.leave_all

    def leave_all(*args: Any, lost: bool) -> Any:
        return real(*args, lost=False)

    patch.setattr(registration, "leave_all", leave_all)


def recover_by_the_shortest_log(patch: Patch) -> None:
    """I-53."""

    def least(partition: Any, among: Any, brokers: Any, ends: Any) -> Any:
        return min(among, key=lambda b: ends.of(partition, brokers[b]) or recovery.UNKNOWN_END)

    patch.setattr(recovery, "_greatest", least)


def recover_before_all_are_back(patch: Patch) -> None:
    """I-53: who is away may hold what nobody else has."""

    def choice(partition: Any, brokers: Any, ends: Any) -> Any:
        back = [b for b in partition.replicas if election.electable(partition, b, brokers)]
        lost = not partition.isr and not partition.elr
        return (back[0] if back and lost else NO_LEADER), ()

    patch.setattr(recovery, "balanced_choice", choice)


MUTANTS: list[tuple[Callable[[Patch], None], Bounds, str]] = [
    (truncate_by_high_watermark, Bounds(appends=1, kills=1), "I-41"),
    (count_the_committed_isr_only, Bounds(appends=1, lags=1), "I-15|I-16"),
    (accept_fetches_of_any_leader_epoch, Bounds(appends=1, kills=1), "I-2"),
    (accept_fetches_of_any_incarnation, Bounds(appends=1, losses=1), "core's own assertion"),
    (join_below_the_start_of_the_epoch, Bounds(appends=1, kills=1), "I-24"),
    (commit_below_the_minimum, Bounds(appends=1, kills=2), "I-9"),
    (fetch_without_the_epoch_of_the_last_record, Bounds(kills=1), "I-15"),
    (apply_answers_to_older_questions, Bounds(kills=1), "I-2|I-15"),
    (alter_without_comparing, Bounds(appends=1, kills=1, lags=1), "I-27"),
    (let_the_fenced_join, Bounds(appends=1, kills=1, lags=1), "I-23"),
    (elect_anybody, Bounds(appends=1, kills=2), "I-15"),
    (keep_a_restarted_broker_in_the_isr, Bounds(appends=1, losses=1), "I-15|I-23"),
    (keep_the_eligible_when_the_isr_is_whole, Bounds(appends=1, lags=1), "core's own assertion"),
]


@pytest.mark.parametrize(
    ("plant", "bounds", "invariant"), MUTANTS, ids=lambda p: getattr(p, "__name__", "")
)
def test_a_planted_bug_is_found(
    monkeypatch: Patch, plant: Callable[[Patch], None], bounds: Bounds, invariant: str
) -> None:
    plant(monkeypatch)
    report = explore(bounds)
    assert report.violation is not None, f"{report.states} states, and nothing found"
    assert any(name in report.violation for name in invariant.split("|")), report.violation
    assert 3 <= len(report.trace) <= 14


_DEEP = Bounds(appends=1, kills=2, losses=1, lags=1, leader_epochs=6, partition_epochs=10)

RECOVERY: list[tuple[Callable[[Patch], None], Bounds, str]] = [
    (keep_an_unclean_restart_in_the_elr, _DEEP, "I-14|I-15"),
    (recover_by_the_shortest_log, _DEEP, "I-14|I-15"),
    (recover_before_all_are_back, _DEEP, "I-14|I-15"),
]


@pytest.mark.parametrize(
    ("plant", "bounds", "invariant"), RECOVERY, ids=lambda p: getattr(p, "__name__", "")
)
def test_a_bug_planted_in_what_follows_a_shrunken_isr_is_found(
    monkeypatch: Patch, plant: Callable[[Patch], None], bounds: Bounds, invariant: str
) -> None:
    plant(monkeypatch)
    report = explore(bounds, prefix=ONE_OUT)
    assert report.violation is not None, f"{report.states} states, and nothing found"
    assert any(name in report.violation for name in invariant.split("|")), report.violation


def test_the_last_replica_may_lose_data() -> None:
    """I-51, P-9: others who had left the ISR are elected, and hold what it has lost."""
    bounds = Bounds(appends=1, kills=2, losses=1, leader_epochs=5, partition_epochs=9)
    report = explore(bounds, prefix=COMMITTED)
    assert report.violation is None, "\n".join([report.violation, *report.trace])


def test_all_may_die_at_once_without_a_loss() -> None:
    """I-53: the longest log leads when all are back."""
    bounds = Bounds(appends=1, kills=3, leader_epochs=7, partition_epochs=14)
    all_die = [("is-killed", b) for b in (1, 2, 3)]
    report = explore(bounds, prefix=(*COMMITTED, *all_die), states_max=30_000)
    assert report.violation is None, "\n".join([report.violation, *report.trace])
    assert report.steps["leads-by-recovery"] > 0
