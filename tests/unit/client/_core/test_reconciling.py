"""Steps from what is granted to what the application knows."""

from __future__ import annotations

from strandline._core.reconciling import Kind, Reconciling, Step

A, B, C = (b"t" * 16, 0), (b"t" * 16, 1), (b"t" * 16, 2)


def step_of(core: Reconciling) -> Step:
    step = core.next_step()
    assert step is not None
    return step


def holding(*keys: tuple[bytes, int]) -> Reconciling:
    core = Reconciling()
    core.on_granted(keys)
    core.on_assigned(frozenset(keys))
    assert core.next_step() is None
    return core


def test_revoked_comes_before_assigned_and_lost_before_both() -> None:
    core = holding(A, B)
    core.on_granted({B, C})
    assert step_of(core)[:2] == (Kind.REVOKE, frozenset({A}))
    assert core.owned == {A, B, C}
    assert not core.is_given_up
    core.on_told(frozenset({A}))
    assert core.is_given_up
    assert step_of(core)[:2] == (Kind.ASSIGN, frozenset({C}))
    core.on_membership_lost()
    core.on_granted({C})
    assert step_of(core)[:2] == (Kind.LOSE, frozenset({B}))
    core.on_told(frozenset({B}))
    assert step_of(core)[:2] == (Kind.ASSIGN, frozenset({C}))


def test_a_partition_granted_again_is_not_taken_up_by_the_old_grant() -> None:
    core = Reconciling()
    core.on_granted({A, B})
    old = step_of(core)
    core.on_granted({B})
    core.on_granted({A, B})
    assert core.still_granted(old) == {B}
    assert core.still_granted(step_of(core)) == {A, B}


def test_what_is_lost_while_it_is_being_revoked_is_told_once() -> None:
    core = holding(A, B)
    core.on_granted({B})
    core.on_membership_lost()
    core.on_told(frozenset({A}))  # the listener had begun to hear that it is revoked
    assert step_of(core)[:2] == (Kind.LOSE, frozenset({B}))


def test_what_was_taken_back_while_it_was_being_found_needs_no_step() -> None:
    core = Reconciling()
    core.on_granted({A})
    step = step_of(core)
    core.on_granted(())
    assert core.still_granted(step) == frozenset()
    assert core.next_step() is None
    assert core.owned == frozenset()
