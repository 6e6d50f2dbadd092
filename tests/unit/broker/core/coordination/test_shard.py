"""A shard loads, serves and ends with its leadership, and lets nothing out before its time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.coordination.shard import Drop, Load, Release, Serve, Shard, ShardState
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from strandline_proto.ids import LeaderEpoch, Offset

if TYPE_CHECKING:
    from strandline_broker.core.coordination.shard import ShardEffect


def elected(shard: Shard[str], epoch: int = 1, end: int = 10) -> Load:
    effects = shard.elected(LeaderEpoch(epoch), Offset(end))
    drop, load = effects
    assert isinstance(drop, Drop)
    assert isinstance(load, Load)
    return load


def serving(*, epoch: int = 1, end: int = 10) -> Shard[str]:
    shard: Shard[str] = Shard()
    shard.loaded(elected(shard, epoch, end))
    assert shard.committed(Offset(end)) == [Serve()]
    return shard


def released(effects: list[ShardEffect[str]]) -> list[str]:
    return [t for effect in effects if isinstance(effect, Release) for t in effect.waiters]


def test_it_serves_when_what_it_loaded_is_committed() -> None:
    shard: Shard[str] = Shard()
    assert isinstance(shard.refusal(), NotCoordinator)
    load = elected(shard, end=10)
    assert isinstance(shard.refusal(), CoordinatorLoadInProgress)
    assert shard.committed(Offset(9)) == []
    assert shard.loaded(load) == []
    assert shard.state is ShardState.WAITING_HW
    assert isinstance(shard.refusal(), CoordinatorLoadInProgress)
    assert shard.committed(Offset(10)) == [Serve()]
    assert shard.refusal() is None


def test_a_load_whose_end_is_committed_already_serves_at_once() -> None:
    shard: Shard[str] = Shard()
    load = elected(shard, end=10)
    shard.committed(Offset(10))
    assert shard.loaded(load) == [Serve()]


def test_an_earlier_leaderships_high_watermark_opens_nothing() -> None:
    shard = serving(epoch=1, end=10)
    shard.committed(Offset(500))
    load = elected(shard, epoch=2, end=400)
    assert shard.loaded(load) == []
    assert shard.committed(Offset(399)) == []
    assert shard.committed(Offset(400)) == [Serve()]


def test_unload_overtakes_load() -> None:
    """Elected in 5 and in 6; the load of 5 ends last."""
    shard: Shard[str] = Shard()
    fifth = elected(shard, epoch=5)
    shard.resigned(LeaderEpoch(5))
    sixth = elected(shard, epoch=6)
    assert shard.committed(Offset(10)) == []
    assert shard.loaded(sixth) == [Serve()]
    assert not shard.is_current(fifth)
    assert shard.loaded(fifth) == []
    assert shard.load_failed(fifth) == []
    assert (shard.state, shard.epoch) == (ShardState.ACTIVE, 6)


def test_a_replica_deleted_while_loading_leaves_nothing() -> None:
    shard: Shard[str] = Shard()
    load = elected(shard, epoch=5)
    assert shard.deleted() == [Drop(())]
    assert shard.loaded(load) == []
    assert isinstance(shard.refusal(), NotCoordinator)
    anew = elected(shard, epoch=5)
    assert shard.loaded(load) == []
    assert shard.is_current(anew)


@pytest.mark.parametrize("order", list(itertools.permutations(["e1", "e2", "r1", "loaded"])))
def test_the_highest_epoch_decides_in_whatever_order(order: tuple[str, ...]) -> None:
    shard: Shard[str] = Shard()
    loads: list[Load] = []
    for step in order:
        if step == "r1":
            effects = shard.resigned(LeaderEpoch(1))
        elif step == "loaded":
            effects = [e for load in loads for e in shard.loaded(load)]
        else:
            effects = shard.elected(LeaderEpoch(int(step[1])), Offset(10))
        loads += [effect for effect in effects if isinstance(effect, Load)]
    assert shard.epoch == 2
    assert shard.state in (ShardState.LOADING, ShardState.WAITING_HW)
    for load in loads:
        shard.loaded(load)
    assert shard.committed(Offset(10)) == [Serve()]


def test_an_answer_waits_for_the_end_of_its_batch() -> None:
    shard = serving()
    shard.appended(["g"], Offset(12))
    assert not shard.park_until("commit", Offset(12))
    assert shard.first_waiters(9) == [(12, "commit")]
    assert shard.first_waiters(0) == []
    assert released(shard.committed(Offset(11))) == []
    assert released(shard.committed(Offset(12))) == ["commit"]
    assert shard.park_until("late", Offset(12))
    assert shard.waiting == 0


def test_a_read_waits_for_what_was_written_of_whom_it_tells() -> None:
    shard = serving()
    assert shard.park("before", "g")
    shard.appended(["g", ("g", "m")], Offset(12))
    shard.appended(["other"], Offset(13))
    assert not shard.park("group", "g")
    assert not shard.park("member", ("g", "m"))
    assert not shard.park("all", None)
    assert shard.park("untouched", ("g", "n"))
    assert sorted(released(shard.committed(Offset(12)))) == ["group", "member"]
    assert released(shard.committed(Offset(13))) == ["all"]


def test_who_waits_for_a_member_goes_on_waiting_if_that_is_written_again() -> None:
    shard = serving()
    shard.appended([("g", "m")], Offset(12))
    assert not shard.park("grant", ("g", "m"))
    shard.appended([("g", "m")], Offset(14))
    assert released(shard.committed(Offset(13))) == []
    assert released(shard.committed(Offset(14))) == ["grant"]


def test_a_demoted_coordinator_does_not_acknowledge() -> None:
    shard = serving(epoch=1)
    shard.appended(["g"], Offset(12))
    shard.park_until("commit", Offset(12))
    assert shard.resigned(LeaderEpoch(2)) == [Drop(("commit",))]
    assert shard.committed(Offset(20)) == []


def test_a_failed_append_loads_again_and_tells_that_nobody_knows() -> None:
    shard = serving()
    shard.appended(["g"], Offset(12))
    shard.park_until("before", Offset(12))
    drop, load = shard.append_failed(Offset(12))
    assert drop == Drop(("before",))
    assert isinstance(load, Load)
    assert (load.epoch, load.end) == (1, 12)
    assert shard.loaded(load) == []
    assert shard.committed(Offset(12)) == [Serve()]


def test_a_shard_that_cannot_be_loaded_says_so_until_it_is_elected_anew() -> None:
    shard: Shard[str] = Shard()
    shard.load_failed(elected(shard))
    assert isinstance(shard.refusal(), CoordinatorNotAvailable)
    assert shard.committed(Offset(10)) == []
    shard.loaded(elected(shard, epoch=2))
    assert shard.committed(Offset(10)) == [Serve()]


def test_what_could_not_be_read_is_loaded_again_in_the_same_leadership() -> None:
    shard: Shard[str] = Shard()
    failed = elected(shard)
    assert shard.load_again(failed) == [], "it has not failed"
    shard.load_failed(failed)
    assert shard.has_failed(failed)
    (again,) = shard.load_again(failed)
    assert isinstance(again, Load)
    assert (again.epoch, again.end) == (failed.epoch, failed.end)
    assert shard.load_again(failed) == [], "it is under way"
    shard.load_failed(again)
    shard.resigned(failed.epoch)
    assert shard.load_again(again) == []


def test_who_went_away_is_forgotten() -> None:
    shard = serving()
    shard.appended(["g"], Offset(12))
    shard.park("gone", "g")
    shard.park("here", "g")
    shard.forget(lambda ticket: ticket == "gone")
    assert released(shard.committed(Offset(12))) == ["here"]


def test_what_is_committed_is_not_kept() -> None:
    shard = serving()
    for n in range(1000):
        shard.appended([f"group-{n}"], Offset(11 + n))
        shard.committed(Offset(11 + n))
    assert len(shard._written) == 0
