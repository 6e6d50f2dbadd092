"""Faults at named places: they open or hit the windows between memory, disk and reports.

`plan/windows.py` draws them together with the events that bring a cluster to those places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import broker, seconds
from strandline_proof.sim.kinds.places import PLACES, STORE
from strandline_proof.sim.topology.topology import CONTROLLER, COORDINATOR

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

WINDOW: Final = "window"
"""The event of an open window: an operation stands still at its place, or an answer is lost."""
DELAY_S: Final = (0.05, 2.0)
COUNTS: Final = (1, 1, 2, 7)
TO_LEADERS: Final = ("Produce", "Fetch", "DeleteRecords", "OffsetsForLeaderEpoch", "InitProducerId")
TO_CONTROLLERS: Final = (
    "AlterPartition",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
)
BY_BOTH: Final = (
    "CreateTopics",
    "DeleteTopics",
    "CreatePartitions",
    "AlterPartitionReassignments",
    "IncrementalAlterConfigs",
)
"""Calls of a client to a broker that the broker passes on to the controller: either answer may be
lost.
"""
TO_BROKERS: Final = ("LeaderAndIsr", "Identify")
TO_COORDINATORS: Final = ("OffsetCommit", "ConsumerGroupHeartbeat", "GroupSession", "OffsetDelete")
METHODS: Final = (*TO_LEADERS, *TO_CONTROLLERS, *BY_BOTH, *TO_BROKERS, *TO_COORDINATORS)


def delay_s(rng: random.Random) -> float:
    """A delay; short ones are frequent, as most races take no longer."""
    low, high = DELAY_S
    longer: float = (high / low) ** rng.random()
    return round(low * longer, 3)


def _delay_at(rng: random.Random, topology: Topology) -> dict[str, Any]:
    point = rng.choice(tuple(PLACES))
    return {
        "node": CONTROLLER if point in STORE else broker(rng, topology),
        "point": point,
        "count": rng.choice(COUNTS),
        "for_s": delay_s(rng),
        "late": rng.random() < 0.3,
    }


def _lost_answer(rng: random.Random, topology: Topology) -> dict[str, Any]:
    with_groups = TO_COORDINATORS if topology.groups else ()
    family = rng.choice((("Produce",), TO_LEADERS, TO_CONTROLLERS, BY_BOTH, with_groups))
    method = rng.choice(family or TO_BROKERS)
    return {"node": _answers(rng, topology, method), "method": method, "count": rng.choice(COUNTS)}


def _answers(rng: random.Random, topology: Topology, method: str) -> str:
    if method in TO_CONTROLLERS or (method in BY_BOTH and rng.random() < 0.5):
        return CONTROLLER
    if method in TO_COORDINATORS and topology.groups:
        return f"{COORDINATOR}-{rng.randrange(len(topology.groups))}"
    if method in TO_LEADERS and rng.random() < 0.8:
        return f"leader-{rng.randrange(topology.partitions)}"
    return rng.choice(topology.broker_names)


def crash_at(rng: random.Random, topology: Topology, point: str) -> dict[str, Any]:
    """The arguments of a `crash-at` at that point."""
    return {
        "node": CONTROLLER if point in STORE else broker(rng, topology),
        "point": point,
        "count": rng.choice(COUNTS),
        "power": rng.random() < 0.6,
        "restart_s": seconds(rng, 0.1, 2.0),
    }


KINDS: Final[dict[str, Draw]] = {"delay-at": _delay_at, "lost-answer": _lost_answer}
