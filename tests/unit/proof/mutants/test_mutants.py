"""Planted bugs fit the present sources, and a patch that does not is named."""

import ast
import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest

from strandline_proof.mutants.catalogue import MUTANTS, READ_BUGS, UnknownMutant, mutant_named
from strandline_proof.mutants.mutant import READ, Edit, Mutant, Needs
from strandline_proof.mutants.plans import plans
from strandline_proof.mutants.scratch import DoesNotApply, patched, plant, source_of, source_root
from strandline_proof.mutants.unplanted import UNPLANTED
from strandline_proof.sim.plan.plan import check_plan, read_plan

LEADER = "strandline_broker.core.replication.leader"


NEEDS = {repr(mutant.needs): mutant for mutant in reversed(MUTANTS)}
"""A mutant for each way of drawing plans: the first of those that need the same."""


@cache
def syntax_of(module: str) -> str:
    return ast.dump(ast.parse(source_of(module).read_text("utf-8")))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_to_these_sources_and_changes_them(mutant: Mutant) -> None:
    for module, text in patched(mutant).items():
        assert ast.dump(ast.parse(text)) != syntax_of(module)


def test_there_are_enough_of_them_with_names_and_rules_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(not mutant.equivalent for mutant in MUTANTS) >= 30
    for mutant in MUTANTS:
        assert re.search(r"\b[PI]-\d+", mutant.rules), mutant.name
    assert len({tuple(patched(mutant).items()) for mutant in MUTANTS}) == len(MUTANTS)


def places(mutant: Mutant) -> set[tuple[str, int]]:
    """The lines that it changes."""
    found = set()
    for edit in mutant.edits:
        text = source_of(edit.module).read_text("utf-8")
        first = text[: text.index(edit.old)].count("\n")
        found |= {(edit.module, first + n) for n in range(len(edit.old.splitlines()))}
    return found


def test_what_a_reader_chose_has_no_plan_and_stands_where_no_other_bug_does() -> None:
    assert len(READ_BUGS) >= 44
    others = {place for mutant in MUTANTS if not mutant.is_read for place in places(mutant)}
    for bug in READ_BUGS:
        assert (bug.plans, bug.needs, bug.equivalent) == (READ, Needs(), ""), bug.name
        assert not places(bug) & others, bug.name


@pytest.mark.parametrize(
    "history", sorted({mutant.history for mutant in MUTANTS if mutant.history})
)
def test_a_history_that_finds_a_mutant_is_there(history: str) -> None:
    file, _, name = history.partition("::")
    tests = ast.parse((source_root("strandline_proof").parent / file).read_text("utf-8")).body
    found = [
        each.name for each in tests if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert found.count(name) == 1


def test_planting_changes_the_copy_and_nothing_else(tmp_path: Path) -> None:
    mutant = mutant_named("own-min-insync-replicas")
    original = source_of(LEADER).read_text("utf-8")
    plant(mutant, tmp_path)
    planted = tmp_path / "strandline_broker/core/replication/leader.py"
    assert planted.read_text("utf-8") == patched(mutant)[LEADER] != original
    assert source_of(LEADER).read_text("utf-8") == original
    assert (tmp_path / "strandline_broker/core/replication/follower.py").is_file()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit(LEADER, "no such text", ""), "mutant m: in .*replication.leader .* stands 0 times"),
        (Edit(LEADER, "self.", ""), "mutant m: in .*replication.leader .* times instead of once"),
        (Edit("strandline_broker.no", "a", "b"), "mutant m: there is no module .*broker.no"),
    ],
)
def test_a_patch_that_does_not_apply_is_named(edit: Edit, why: str) -> None:
    with pytest.raises(DoesNotApply, match=why):
        patched(Mutant("m", "P-1", "", (edit,)))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownMutant, match=r"no mutant 'x'; there are .*unclean-election"):
        mutant_named("x")


@pytest.mark.parametrize("mutant", NEEDS.values(), ids=lambda mutant: mutant.name)
def test_its_plans_can_be_run_and_follow_from_their_number(mutant: Mutant) -> None:
    drawn = list(plans(mutant.needs, first=16, number=16))
    assert len(drawn) == 16
    for plan in drawn:
        check_plan(plan)
        for fault in plan.faults:
            aimed = fault in mutant.needs.aimed
            assert aimed or not mutant.needs.kinds or fault.kind in mutant.needs.kinds
    assert list(plans(mutant.needs, first=17, number=1)) == drawn[1:2]


def test_a_kept_plan_keeps_its_faults_under_the_seeds_after_its_own() -> None:
    name = "a-late-registration-of-a-dead-process"
    first, second = plans(Needs(corpus=name), first=1, number=2)
    file = source_root("strandline_proof").parent / "tests" / "sim" / "corpus" / f"{name}.json"
    assert first == read_plan(file.read_text("utf-8"), commit="")
    assert second == dataclasses.replace(first, seed=first.seed + 1)


def test_every_pitfall_is_planted_or_it_is_said_what_stands_for_it() -> None:
    rules = source_root("strandline_proof").parent / "docs" / "internals" / "invariants.md"
    pitfalls = set(re.findall(r"^\| (P-\d+) \|", rules.read_text("utf-8"), re.MULTILINE))
    planted = {rule for mutant in MUTANTS for rule in re.findall(r"P-\d+", mutant.rules)}
    assert pitfalls - planted == set(UNPLANTED)
