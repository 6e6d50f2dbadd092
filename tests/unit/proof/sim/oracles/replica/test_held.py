"""How far a partition is committed, from disks and the controller's log alone (I-9)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.controller.decided import Decided
from strandline_proof.sim.oracles.replica.held import HeldOracle
from strandline_proof.sim.oracles.replica.log_view import Entry
from strandline_proof.sim.oracles.violation import Violation

KEY = b"t" * 16, 0


class View:
    """A log of one batch for each offset below `end`; from `parts` on they are of epoch 2."""

    start = 0

    def __init__(self, end: int, *, parts: int = 99) -> None:
        self.end = end
        self.entries = [Entry(at, at + 1, 1 + (at >= parts), at, None) for at in range(end)]

    def holds(self, entry: Entry) -> bool:
        return entry in self.entries

    def is_durable(self, entry: Entry) -> bool:
        return entry.base < 4


def decided(*isr: int, minimum: int = 2) -> Decided:
    return Decided(50, (1, 2, 3), isr, 1, 1, 7, minimum=minimum)


class Scene:
    def __init__(self, now: Decided, *, always: bool = False, registered: int = 9) -> None:
        lifecycle = SimpleNamespace(broker_epoch=9)
        self.nodes = {
            n: SimpleNamespace(
                name=f"b{n}",
                incarnation=1,
                running=True,
                process=SimpleNamespace(lifecycle=lifecycle),
            )
            for n in (1, 2, 3)
        }
        self.now = now
        log: Any = SimpleNamespace(at=lambda key, epoch: now, newest=lambda key: now)
        brokers = {n: SimpleNamespace(epoch=registered) for n in (1, 2, 3)}
        control: Any = SimpleNamespace(decided=log, brokers=brokers)
        nodes: Any = self.nodes
        self.held = HeldOracle(nodes, control, always=always)
        for node in nodes.values():
            self.held.on_lives(node)

    def known(self, **views: View) -> dict[str, Any]:
        partition = SimpleNamespace(name="t-0")
        return {
            name: SimpleNamespace(incarnation=1, partition=partition, view=view)
            for name, view in views.items()
        }

    def check(self, mark: int, **views: View) -> int | None:
        known = self.known(**views)
        return self.held.check(KEY, 7, mark, known["b1"], known)

    def is_whole(self, mark: int, **views: View) -> bool:
        known = self.known(**views)
        return self.held.is_whole(KEY, 7, mark, known["b1"], known)


def test_what_the_isr_holds_is_committed() -> None:
    assert Scene(decided(1, 2)).check(5, b1=View(6), b2=View(5), b3=View(0)) == 2


def test_a_mark_beyond_what_a_member_holds() -> None:
    with pytest.raises(Violation, match="I-9"):
        Scene(decided(1, 2)).check(6, b1=View(6), b2=View(5))


def test_a_member_that_has_died_counts_with_what_it_held() -> None:
    scene = Scene(decided(1, 2))
    scene.nodes[2].running = False
    with pytest.raises(Violation, match="b2, in the ISR, ends at 5"):
        scene.check(6, b1=View(6), b2=View(5))
    assert scene.check(5, b1=View(6), b2=View(5)) is None  # fewer than the minimum are seen


def test_what_a_disk_has_lost_since_was_held() -> None:
    scene = Scene(decided(1, 2))
    held: Any = View(6)
    scene.held.on_over("b2", KEY, 1, held)
    scene.check(6, b1=View(6), b2=View(2))


def test_a_member_with_another_history() -> None:
    with pytest.raises(Violation, match="does not hold offset 4"):
        Scene(decided(1, 2)).check(5, b1=View(5), b2=View(5, parts=3))


def test_too_few_in_sync() -> None:
    with pytest.raises(Violation, match="2 are needed"):
        Scene(decided(1)).check(5, b1=View(5))


def test_what_a_member_has_not_flushed() -> None:
    assert Scene(decided(1, 2), always=True).check(4, b1=View(5), b2=View(5)) == 2
    with pytest.raises(Violation, match="not flushed"):
        Scene(decided(1, 2), always=True).check(5, b1=View(5), b2=View(5))


def test_a_member_that_has_registered_anew_since_is_not_asked() -> None:
    scene = Scene(decided(1, 2), registered=60)
    assert scene.check(6, b1=View(6), b2=View(5)) is None


def test_an_isr_is_whole_when_all_of_it_is_there_and_holds_all() -> None:
    assert Scene(decided(1, 2)).is_whole(5, b1=View(5), b2=View(5))
    assert not Scene(decided(1, 2)).is_whole(5, b1=View(5), b2=View(4))
    assert not Scene(decided(1, 2)).is_whole(5, b1=View(5))
    assert not Scene(decided(1)).is_whole(5, b1=View(5))
