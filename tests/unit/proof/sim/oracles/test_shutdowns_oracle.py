"""Who is let go: everybody who lived as that was decided knows that it leads nothing (I-84)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.process.shutdowns import LeaveOracle
from strandline_proof.sim.oracles.violation import Violation

STOPS = 20
"""The offset of the decision by which broker 1 began to stop."""


class Scene:
    """Broker 1 hears that it may go, and broker 2 lacks what was decided at `STOPS`."""

    def __init__(self) -> None:
        self.unfenced = {1: 3, 2: 4}
        self.brokers = {n: SimpleNamespace(epoch=n, fenced=False) for n in (1, 2)}
        self.partitions = {(b"t", 0): SimpleNamespace(leader=2)}
        lifecycle = SimpleNamespace(may_stop=True, broker_epoch=1)
        metadata = SimpleNamespace(view=SimpleNamespace(brokers={2: None}, topics_by_id={}))
        self.nodes: dict[int, Any] = {
            n: SimpleNamespace(
                name=f"broker-{n}",
                incarnation=1,
                running=True,
                process=SimpleNamespace(lifecycle=lifecycle, metadata=metadata),
            )
            for n in (1, 2)
        }

    def hears(self) -> None:
        decided = SimpleNamespace(
            stopping_at=lambda number: STOPS, unfenced_at=lambda number: self.unfenced[number]
        )
        control: Any = SimpleNamespace(
            brokers=self.brokers, partitions=self.partitions, decided=decided
        )
        applied: Any = SimpleNamespace(lacks=lambda node, offset: "it lacks that")
        LeaveOracle(self.nodes, control, applied).on_step(self.nodes[1])


def test_who_lives_has_carried_out_that_its_leaderships_moved() -> None:
    with pytest.raises(Violation, match="broker 2 has not carried that out"):
        Scene().hears()


def test_who_leads_something_is_not_let_go() -> None:
    scene = Scene()
    scene.partitions[b"t", 0].leader = 1
    with pytest.raises(Violation, match="leads partitions"):
        scene.hears()


def test_who_is_fenced_or_was_when_it_was_let_go_is_not_waited_for() -> None:
    """It is back before the leave has come to whom it was given."""
    scene = Scene()
    scene.brokers[2].fenced = True
    scene.hears()
    scene.brokers[2].fenced = False
    scene.unfenced[2] = STOPS + 1
    scene.hears()


def test_who_is_fenced_itself_waits_for_nobody() -> None:
    scene = Scene()
    scene.brokers[1].fenced = True
    scene.hears()
