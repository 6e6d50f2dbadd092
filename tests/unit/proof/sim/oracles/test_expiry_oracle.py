"""I-60: when a producer may be forgotten."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.partition.expiry import ExpiryOracle
from strandline_proof.sim.oracles.violation import Violation


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.some: Counter[str] = Counter()
        self.oracle = ExpiryOracle(2000, lambda: self.now, self.some)
        self.known: list[tuple[int, int, int, int]] = []
        self.log = SimpleNamespace(log_start_offset=0, log_end_offset=10)
        self.is_locked = False
        self.node: Any = SimpleNamespace(
            name="broker-1", incarnation=1, wall_offset_s=0.0, ahead_s=0.0, most_ahead_s=0.0
        )
        self.read_again()

    def read_again(self) -> None:
        self.producers = SimpleNamespace(entries=lambda: self.known)

    def look(self, now: float, *known: tuple[int, int]) -> None:
        """Producers, each with its last offset."""
        self.now = now
        self.known = [(producer, 0, 0, offset) for producer, offset in known]
        partition: Any = SimpleNamespace(
            name="t-0",
            log=self.log,
            producers=self.producers,
            gate=SimpleNamespace(locked=lambda: self.is_locked),
        )
        self.oracle.on_step(self.node, "key", partition)


def test_who_has_sent_nothing_for_so_long_is_forgotten() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.look(1.0, (7, 4))
    scene.look(3.0)
    assert scene.some["producer forgotten"] == 1


def test_nobody_is_forgotten_before() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.look(1.0, (7, 4))
    with pytest.raises(Violation, match=r"producer 7 is forgotten 1\.500 s after its last batch"):
        scene.look(2.5)


def test_a_cut_or_another_life_may_take_a_producer_with_it() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.log.log_end_offset = 2
    scene.look(0.1)
    scene.look(0.2, (7, 3))
    scene.node.incarnation = 2
    scene.look(0.3)


def test_a_log_that_begins_anew_behind_its_end_knows_nobody() -> None:
    scene = Scene()
    scene.look(0.0, (7, 9))
    scene.log.log_start_offset = 10
    scene.look(0.1, (7, 9))
    scene.log.log_start_offset = scene.log.log_end_offset = 14
    scene.is_locked = True
    scene.look(0.2, (7, 9))
    scene.is_locked = False
    scene.look(0.3)
    assert not scene.some
    scene.log.log_start_offset, scene.log.log_end_offset = 15, 16
    scene.look(0.4, (7, 15))
    with pytest.raises(Violation, match=r"forgotten 1\.000 s after"):
        scene.look(1.4)


def test_a_start_does_not_make_the_last_batch_a_later_one() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.node.incarnation = 2
    scene.look(1.9, (7, 3))
    scene.look(2.1)
    assert scene.some["producer forgotten"] == 1


def test_a_copied_directory_has_the_times_of_the_first() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3), (8, 4))
    scene.look(1.9, (7, 3), (8, 5))
    scene.oracle.on_copied("broker-1", "twin1-1")
    scene.node.name = "twin1-1"
    scene.look(2.0, (7, 3), (8, 5))
    scene.look(2.1, (8, 5))
    assert scene.some["producer forgotten"] == 1
    with pytest.raises(Violation, match=r"producer 8 is forgotten 0\.300 s after its last batch"):
        scene.look(2.2)


def test_a_start_does_not_make_anybody_be_forgotten_sooner() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.look(1.0, (7, 4))
    scene.node.incarnation = 2
    scene.look(1.5, (7, 4))
    with pytest.raises(Violation, match=r"producer 7 is forgotten 1\.100 s after its last batch"):
        scene.look(2.1)


def test_another_batch_at_an_offset_that_was_cut_counts_by_its_own_time() -> None:
    scene = Scene()
    scene.look(0.0, (7, 9))
    scene.log.log_end_offset = 9
    scene.look(1.0)
    scene.log.log_end_offset = 10
    scene.look(1.5, (7, 9))
    with pytest.raises(Violation, match=r"forgotten 1\.000 s after"):
        scene.look(2.5)


def test_what_was_known_before_a_cut_stands_until_that_is_done() -> None:
    scene = Scene()
    scene.look(0.0, (7, 9))
    scene.log.log_end_offset, scene.is_locked = 0, True
    scene.look(0.1, (7, 9))
    scene.is_locked = False
    scene.look(0.2)
    assert not scene.some
    scene.log.log_end_offset = 1
    scene.look(1.0, (7, 0))
    with pytest.raises(Violation, match=r"forgotten 1\.000 s after"):
        scene.look(2.0)


def test_files_seem_older_to_a_clock_that_has_jumped() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.node.wall_offset_s = scene.node.ahead_s = 1.0
    scene.look(0.5, (7, 4))
    with pytest.raises(Violation, match="is forgotten"):
        scene.look(1.0)
    scene.look(1.0, (7, 4))
    scene.node.incarnation = 2
    scene.look(1.1, (7, 4))
    scene.look(1.6)
    assert scene.some["producer forgotten"] == 2


def test_a_clock_that_is_right_again_was_ahead_as_the_files_were_looked_at() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3), (8, 4))
    scene.node.incarnation, scene.node.most_ahead_s = 2, 60.0
    scene.look(0.1, (7, 3), (8, 4))
    scene.look(0.2, (8, 5))
    assert scene.some["producer forgotten"] == 1
    with pytest.raises(Violation, match="producer 8 is forgotten"):
        scene.look(0.3)


def test_a_log_that_is_read_again_is_looked_at_by_the_clock_of_then() -> None:
    scene = Scene()
    scene.look(0.0, (7, 3))
    scene.node.ahead_s = 60.0
    scene.read_again()
    scene.look(0.1, (7, 3))
    scene.look(0.2)
    assert scene.some["producer forgotten"] == 1
