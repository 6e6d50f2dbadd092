"""The vocabulary of faults: every kind can be carried out, and says what it takes."""

import random

from strandline_proof.sim.cluster.world import World
from strandline_proof.sim.kinds import ALL_KINDS
from strandline_proof.sim.oracles.watch import Oracles
from strandline_proof.sim.plan.faults import Nemesis
from strandline_proof.sim.strikes import FAMILIES
from strandline_proof.sim.topology.topology import Topology


def strikes() -> dict[str, set[str]]:
    world = World(1, Topology())
    nemesis = Nemesis(world, Oracles(world))
    world.close()
    return {
        kind: set(strike.__annotations__) - {"return"}
        for family in FAMILIES
        for kind, strike in family(nemesis.scene).strikes.items()
    }


def test_every_kind_has_a_strike_that_takes_its_arguments() -> None:
    taken = strikes()
    assert set(taken) == set(ALL_KINDS)
    for kind, draw in ALL_KINDS.items():
        assert set(draw(random.Random(1), Topology())) == taken[kind], kind


def test_which_arguments_a_kind_has_is_no_matter_of_chance() -> None:
    for kind, draw in ALL_KINDS.items():
        drawn = {frozenset(draw(random.Random(seed), Topology(brokers=4))) for seed in range(40)}
        assert len(drawn) == 1, kind
