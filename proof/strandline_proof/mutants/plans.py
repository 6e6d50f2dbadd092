"""The plans for the search of a mutant."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.mutants.scratch import corpus_text
from strandline_proof.sim.kinds import ALL_KINDS
from strandline_proof.sim.plan.plan import (
    CHAOS_S,
    EVENTS,
    LAST_FAULT_S,
    Fault,
    draw_plan,
    moment,
    read_plan,
    scrubbed,
)
from strandline_proof.sim.topology.groups import PROTOCOLS
from strandline_proof.sim.topology.transactions import KAFKA, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.mutants.mutant import Needs
    from strandline_proof.sim.plan.plan import Plan
    from strandline_proof.sim.topology.topology import Topology

FAULTS: Final = (4, 12)
AFTER_EVENT: Final = 0.35
BEGINS_S: Final = (0.7, 3.3, 5.9)


def plans(needs: Needs, *, first: int, number: int) -> Iterator[Plan]:
    """Yields plan `first` and those after it; each depends on its number and on `needs` alone."""
    if needs.corpus:
        yield from _kept(needs.corpus, first, number)
        return
    for seed in range(first, first + number):
        plan = draw_plan(seed)
        topology = _changed(plan.topology, needs)
        faults = _draw(seed, needs.kinds, topology) if needs.kinds else plan.faults
        if needs.alone or (needs.moments and not needs.kinds):
            faults = ()
        faults = (*faults, *_moments(seed, needs.moments, topology), *needs.aimed)
        faults = tuple(sorted(faults, key=lambda fault: fault.at_s))
        topology = _changed(scrubbed(topology, faults), needs)
        yield _with_one_away_that_may_be(
            dataclasses.replace(plan, topology=topology, faults=faults)
        )


def _changed(topology: Topology, needs: Needs) -> Topology:
    """The topology as `needs` wants it. Without clients of Kafka's protocol its groups have members
    of the library.
    """
    changes: dict[str, Any] = dict(needs.topology)
    if not changes.get("work", topology.work).kafka:
        groups = changes.get("groups", topology.groups)
        changes["groups"] = tuple(dataclasses.replace(g, protocol=PROTOCOLS[0]) for g in groups)
        found = changes.get("transactions", topology.transactions)
        if found is not None and KAFKA in found.tellers:
            changes["transactions"] = dataclasses.replace(found, tellers=(OURS, OURS))
    if changes.get("offsets_partitions", topology.offsets_partitions) == 0:
        changes["transactions"] = None
    return dataclasses.replace(topology, **changes)


def _with_one_away_that_may_be(plan: Plan) -> Plan:
    """Removes an absence of a node that is no broker there, or that would last while faults still
    strike.
    """
    there = plan.away in plan.topology.broker_names
    if there and all(fault.at_s <= plan.chaos_s for fault in plan.faults):
        return plan
    return dataclasses.replace(plan, away="", unseen=False, chaos_s=CHAOS_S)


def _kept(name: str, first: int, number: int) -> Iterator[Plan]:
    """Yields a plan of the corpus, the first one under its own seed."""
    kept = read_plan(corpus_text(name), commit="")
    for n in range(first - 1, first - 1 + number):
        yield dataclasses.replace(kept, seed=kept.seed + n, note="")


def _moments(seed: int, names: tuple[str, ...], topology: Topology) -> list[Fault]:
    rng = random.Random(f"mutant's moments {seed}")
    faults = []
    for begin_s in BEGINS_S if names else ():
        faults += moment(rng.choice(names), rng, topology, begin_s + rng.uniform(0.0, 0.4))
    return faults


def _draw(seed: int, kinds: tuple[str, ...], topology: Topology) -> tuple[Fault, ...]:
    rng = random.Random(f"mutant {seed}")
    faults = []
    for _ in range(rng.randint(*FAULTS)):
        kind = rng.choice(kinds)
        after = rng.choice(EVENTS) if rng.random() < AFTER_EVENT else None
        faults.append(
            Fault(
                at_s=round(rng.uniform(0.5, LAST_FAULT_S), 3),
                kind=kind,
                arguments=ALL_KINDS[kind](rng, topology),
                after=after,
                delay_s=0.0 if after is None else round(rng.uniform(0.0, 0.05), 3),
            )
        )
    return tuple(sorted(faults, key=lambda fault: fault.at_s))
