"""The plan of a chaos run on real processes: a pure function, whose faults end and stay apart."""

from dataclasses import replace

import pytest

from strandline_chaos.faults.plan import (
    CONTROLLER,
    EVERY_BROKER,
    KINDS,
    LEADER,
    POWER,
    Fault,
    PlanMistake,
    PlanOptions,
    draw,
    parse_kinds,
    parse_victims,
)

SEEDS = range(60)


def plans() -> list[tuple[PlanOptions, list[Fault]]]:
    options = [PlanOptions(seed, seconds) for seed in SEEDS for seconds in (12, 30, 300)]
    return [(each, draw(each)) for each in options]


def test_a_plan_is_a_function_of_its_options() -> None:
    assert draw(PlanOptions(7, 300)) == draw(PlanOptions(7, 300))
    assert draw(PlanOptions(7, 300)) != draw(PlanOptions(8, 300))
    assert draw(PlanOptions(7, 30)) == draw(PlanOptions(7, 30.0))
    assert [str(fault) for fault in draw(PlanOptions(7, 30))] == [
        "    3.0 s    3.6 s  kill broker-2",
        "    8.1 s    3.6 s  disk-slow broker-1 (stalls of 219 ms)",
        "   10.5 s    3.6 s  disk-full broker-2",
        "   15.6 s    3.6 s  partition leader (cut off from the controller)",
        "   20.7 s    3.6 s  delay broker-1 (405 ms)",
    ]


def test_every_fault_begins_in_order_and_ends_before_the_run_does() -> None:
    for options, faults in plans():
        assert faults, options
        assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
        assert all(0 < fault.at_s < fault.ends_s < options.seconds for fault in faults), options


def test_five_minutes_hold_every_kind() -> None:
    for seed in SEEDS:
        assert {fault.kind for fault in draw(PlanOptions(seed, 300))} == set(KINDS), seed


def test_faults_overlap_sometimes_but_never_on_one_victim_nor_beside_a_loss_of_power() -> None:
    overlaps = 0
    for options, faults in plans():
        for number, one in enumerate(faults):
            for other in faults[number + 1 :]:
                if other.at_s >= one.ends_s:
                    continue
                overlaps += 1
                victims = {one.victim, other.victim}
                assert len(victims) == 2, options
                assert LEADER not in victims, options
                assert POWER not in (one.kind, other.kind), options
    assert overlaps > 20


def test_what_strikes_brokers_only_never_strikes_the_controller() -> None:
    for _, faults in plans():
        for fault in faults:
            assert fault.victim != CONTROLLER or KINDS[fault.kind].controller, fault
            assert fault.victim != EVERY_BROKER or fault.kind == POWER, fault


def test_victims_and_durations_can_be_given() -> None:
    options = PlanOptions(1, 50, ("kill",), victims=(LEADER,), fault_s=4, rest_s=6)
    faults = draw(options)
    assert [fault.at_s for fault in faults] == [4, 14, 24, 34]
    assert {(fault.kind, fault.victim, fault.lasts_s) for fault in faults} == {("kill", LEADER, 4)}
    assert draw(replace(options, rounds=2)) == faults[:2]


def test_lists_of_kinds_and_victims_are_read_and_refused() -> None:
    assert parse_kinds("kill, pause,kill") == ("kill", "pause")
    assert parse_victims("2,broker-3,leader", 3) == ("broker-2", "broker-3", LEADER)
    for text in ("", "kill,", "Kill", "unplug"):
        with pytest.raises(PlanMistake, match=r"there is no fault .*: give some of kill, pause"):
            parse_kinds(text)
    for text in ("", "4", "broker", "followers"):
        with pytest.raises(PlanMistake, match=r"there is no victim .*: give some of 1, 2, 3"):
            parse_victims(text, 3)
    with pytest.raises(PlanMistake, match="no kind of fault is left"):
        draw(PlanOptions(1, 60, ()))
