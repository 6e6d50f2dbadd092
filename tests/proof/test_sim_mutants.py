"""The harness that looks for planted bugs: what it finds, and what it does not take for a find."""

import dataclasses
import json

import pytest

from strandline_cli.main import run
from strandline_proof.mutants import catalogue, harness, verdict
from strandline_proof.mutants.catalogue import mutant_named
from strandline_proof.mutants.harness import Bounds, look_for
from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

LEADER = "strandline_broker.core.replication.leader"
CHEAP = "acknowledged-when-appended"


def with_patch(old: str, new: str) -> Mutant:
    """A mutant under a name that the worker knows."""
    return dataclasses.replace(mutant_named(CHEAP), edits=(Edit(LEADER, old, new),))


def test_a_cheap_mutant_is_found_by_the_oracle_of_its_rule() -> None:
    result = look_for(mutant_named(CHEAP), Bounds(3, 60))
    assert (result.status, result.by) == (verdict.FOUND, "I-19")
    assert result.runs == 1
    assert result.passes


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("decision-in-several-batches", "I-82"),
        ("any-incarnation-counts", "I-90"),
        ("tombstones-go-at-once", "I-70"),
        ("overtaken-heartbeat-decides", "I-100"),
        ("nameless-replica-made-anew", "I-7"),
    ],
)
def test_a_rule_is_seen_broken_where_it_is_broken(name: str, rule: str) -> None:
    """Before anything is lost because of it; the second in a moment that was made for it."""
    result = look_for(mutant_named(name), Bounds(3, 60))
    assert (result.status, result.by) == (verdict.FOUND, rule)


def test_a_mutant_that_changes_nothing_survives() -> None:
    harmless = with_patch("self._requests = 0\n", "self._requests = 7\n")
    result = look_for(harmless, Bounds(1, 60))
    assert (result.status, result.runs) == (verdict.SURVIVED, 1)
    assert not result.passes


def test_a_patch_with_a_mistake_is_no_find() -> None:
    broken = with_patch("self._requests = 0\n", "self._requests = no_such_name\n")
    result = look_for(broken, Bounds(1, 60))
    assert result.status == verdict.BAD_PATCH
    assert "no_such_name" in result.why
    assert not result.passes


def test_what_is_broken_without_the_mutant_too_is_no_find(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"status": "found", "by": "I-9", "why": "w", "number": 4, "runs": 4, "seconds": 1.0}
    monkeypatch.setattr(harness, "_work", lambda *_: found)
    result = look_for(mutant_named(CHEAP), Bounds(9, 9))
    assert result.status == harness.UNSOUND
    assert not result.passes


def test_an_equivalent_mutant_is_not_run() -> None:
    result = look_for(mutant_named("leader-epoch-not-compared"), Bounds(1, 1))
    assert (result.status, result.runs) == (harness.EQUIVALENT, 0)
    assert result.passes


def test_a_mutant_is_found_by_a_written_history_wherever_a_part_of_the_tests_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_PROOF_TURN", "0/1000003")
    result = look_for(mutant_named("future-epoch-commits"), Bounds(1, 60))
    assert (result.status, result.by) == (verdict.FOUND, "test_who_may_commit")


@pytest.mark.parametrize(
    ("new", "status"),
    [
        ("        raise stale() from None\n", verdict.SURVIVED),
        ("        raise _stale(command, no_such_name)\n", verdict.BAD_PATCH),
    ],
)
def test_a_history_that_passes_or_breaks_otherwise_is_no_find(new: str, status: str) -> None:
    mutant = mutant_named("future-epoch-commits")
    (edit,) = mutant.edits
    first, _ = edit.old.splitlines(keepends=True)
    other = dataclasses.replace(mutant, edits=(dataclasses.replace(edit, new=first + new),))
    assert look_for(other, Bounds(1, 60)).status == status


def test_a_history_that_breaks_without_an_assertion_or_does_not_end_is_no_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant = mutant_named("future-epoch-commits")
    for played, status in [
        ((1, "OSError: no"), verdict.CRASHES),
        ((harness.DOES_NOT_END, "w"), harness.HANGS),
    ]:
        monkeypatch.setattr(harness, "_play", lambda *_, played=played: played)
        assert look_for(mutant, Bounds(1, 9)).status == status


def test_ordinary_seeds_look_for_a_mutant_whatever_its_plans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, Bounds]] = []

    def work(mutant: Mutant, bounds: Bounds, root: object) -> dict[str, object]:
        asked.append((mutant.name, bounds))
        return {"status": "survived", "runs": bounds.seeds, "seconds": 1.0}

    monkeypatch.setattr(harness, "_work", work)
    bounds = Bounds(5, 9, first=70, ordinary=True)
    result = look_for(mutant_named("future-epoch-commits"), bounds)
    assert (result.status, result.runs) == (verdict.SURVIVED, 5)
    assert asked == [("future-epoch-commits", bounds)]


def test_it_says_whose_plans_find_a_mutant() -> None:
    assert Needs().plans == "any"
    assert Needs(kinds=("kill",)).plans == "narrowed"
    assert Needs(topology={"flush_policy": "always"}).plans == "narrowed"
    assert Needs(corpus="no-room-to-load").plans == "aimed"
    assert (
        Needs(aimed=(Fault(1.0, "kill", {"node": "broker-1", "restart_s": 1.0}),)).plans == "aimed"
    )


def chaos_mutants(*arguments: str) -> int:
    return run(["chaos", "mutants", *arguments])


def test_the_command_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos_mutants("--only", "x") == 2
    assert "there is no mutant 'x'" in capsys.readouterr().err


def test_the_command_names_a_mutant_that_is_not_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "MUTANTS", (with_patch("gone", ""),))
    assert chaos_mutants("--only", CHEAP) == 1
    assert "stands 0 times" in capsys.readouterr().err


def test_the_command_fails_for_a_survivor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    survived = harness.Result(mutant_named(CHEAP), verdict.SURVIVED, 5, 1.0)
    monkeypatch.setattr(harness, "look_for", lambda *_: survived)
    assert chaos_mutants("--only", CHEAP) == 1
    assert f"NOT FOUND: {CHEAP}" in capsys.readouterr().out
    assert chaos_mutants("--only", CHEAP, "--format", "json") == 1


def test_ordinary_seeds_may_miss_what_is_not_said_to_be_found_by_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The share that they find comes first, and what needs no plans of its own is named."""
    found = {CHEAP: verdict.FOUND, "unclean-election": verdict.FOUND}
    monkeypatch.setattr(
        harness,
        "look_for",
        lambda mutant, _: harness.Result(
            mutant, found.get(mutant.name, verdict.SURVIVED), 5, 1.0, "I-9"
        ),
    )
    only = [
        f"--only={name}" for name in (*found, "snapshot-written-in-place", "future-epoch-commits")
    ]
    assert chaos_mutants("--ordinary", *only) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 of 4 by ordinary seeds\nmutant")
    assert "found without its own plans: unclean-election (narrowed)" in told
    assert "NOT FOUND: snapshot-written-in-place" in told
    assert chaos_mutants("--ordinary", *only, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["shares"] == {"any": {"found": 2, "of": 4}}
    found.clear()
    assert chaos_mutants("--ordinary", *only) == 1


def test_what_a_reader_chose_is_looked_for_and_counted_by_itself_and_may_be_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {catalogue.READ_BUGS[0].name: verdict.FOUND, CHEAP: verdict.FOUND}
    monkeypatch.setattr(
        harness,
        "look_for",
        lambda mutant, _: harness.Result(
            mutant, found.get(mutant.name, verdict.SURVIVED), 5, 1.0, "I-9"
        ),
    )
    read = {"found": 1, "of": len(catalogue.READ_BUGS)}
    for ordinary in ([], ["--ordinary"]):
        assert chaos_mutants("--read", *ordinary, "--format", "json") == 0
        assert json.loads(capsys.readouterr().out)["shares"] == {"read": read}
        assert chaos_mutants("--read", "--only", CHEAP, *ordinary, "--format", "json") == 0
        shares = json.loads(capsys.readouterr().out)["shares"]
        assert shares == {"any": {"found": 1, "of": 1}, "read": read}
    assert chaos_mutants("--read") == 0
    told = capsys.readouterr().out
    assert f"1 of {read['of']} by ordinary seeds, of those that a reader" in told
    assert f"NOT FOUND: {catalogue.READ_BUGS[1].name}" in told


def test_shares_are_told_by_whose_plans_have_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        harness, "look_for", lambda mutant, _: harness.Result(mutant, verdict.FOUND, 1, 1.0)
    )
    assert chaos_mutants(f"--only={CHEAP}", "--only=unclean-election", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["shares"] == {
        "any": {"found": 1, "of": 2},
        "narrowed": {"found": 1, "of": 1},
    }
