"""No client is told an end below what was acknowledged to another one before it asked (4.3, 5)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.partition.ends import EndOracle
from strandline_proof.sim.oracles.violation import Violation

KEY = (b"topic", 0)


class Scene:
    """One partition, led in epoch 4, and brokers that lead it in the given epochs."""

    def __init__(self, *led_in: int) -> None:
        brokers = [
            SimpleNamespace(
                process=SimpleNamespace(
                    replicas=SimpleNamespace(
                        partitions={
                            KEY: SimpleNamespace(leader=SimpleNamespace(leader_epoch=epoch))
                        }
                    )
                )
            )
            for epoch in led_in
        ]
        self.ghost = SimpleNamespace(permitted=None, excused=None, lost={})
        self.led_late: Counter[tuple[bytes, int]] = Counter()
        replicas: Any = SimpleNamespace(led_late=self.led_late, ghost=lambda key: self.ghost)
        control: Any = SimpleNamespace(
            partitions={KEY: SimpleNamespace(leader_epoch=4)}, main_keys=lambda: [KEY]
        )
        world: Any = SimpleNamespace(brokers=brokers, doubles=[])
        self.oracle = EndOracle(world, control, replicas)
        self.oracle.on_acknowledged(0, 9)
        self.oracle.on_asked(1)


def test_an_end_below_an_acknowledgement() -> None:
    with pytest.raises(Violation, match="I-11: key 0: a client gets 9 as its end, and 9 had"):
        Scene(4).oracle.on_told(1, {0: 9})


def test_an_end_after_the_acknowledgement() -> None:
    Scene(4).oracle.on_told(1, {0: 10})


def test_what_is_acknowledged_after_the_question_need_not_be_told() -> None:
    scene = Scene(4)
    scene.oracle.on_acknowledged(0, 20)
    scene.oracle.on_told(1, {0: 10})


def test_a_deposed_leader_may_tell_less() -> None:
    Scene(4, 3).oracle.on_told(1, {0: 5})


def test_so_may_one_that_begins_to_lead_too_late() -> None:
    scene = Scene(4)
    scene.led_late[KEY] += 1
    scene.oracle.on_told(1, {0: 5})


def test_where_a_loss_is_permitted_an_end_may_fall() -> None:
    scene = Scene(4)
    scene.ghost.permitted = "all lost their power"
    scene.oracle.on_told(1, {0: 5})
