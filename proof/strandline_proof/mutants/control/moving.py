"""Bugs of moves of live leaders: by command, and by the automatic balance."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_BALANCE: Final = "strandline_broker.core.controller.partitions.balance"
_LEADERSHIP: Final = "strandline_broker.core.controller.partitions.leadership"
_STATE: Final = "strandline_broker.core.controller.log.state"

_MOVES: Final = ("move-leader", "elect-preferred", "kill", "pause", "isolate")

MOVING: Final = (
    Mutant(
        "preferred-leader-before-it-is-in-sync",
        "I-48, I-14, I-97",
        "a broker that comes back leads its partitions at once, and is put into their ISRs",
        (
            Edit(
                _LEADERSHIP,
                "    if broker_id not in partition.isr:\n",
                "    if broker_id not in partition.replicas:\n",
            ),
            Edit(
                _BALANCE,
                "        PartitionChangeRecord(topic_id=p.topic_id, partition=p.index,"
                " leader=preferred_leader(p))\n",
                "        PartitionChangeRecord(\n"
                "            topic_id=p.topic_id,\n"
                "            partition=p.index,\n"
                "            leader=preferred_leader(p),\n"
                "            isr=tuple(dict.fromkeys((preferred_leader(p), *p.isr))),\n"
                "        )\n",
            ),
            Edit(
                _LEADERSHIP,
                "        topic_id=partition.topic_id, partition=partition.index, leader=wanted\n",
                "        topic_id=partition.topic_id, partition=partition.index, leader=wanted,\n"
                "        isr=tuple(dict.fromkeys((wanted, *partition.isr))),\n",
            ),
        ),
        Needs(topology={"balance_s": 1}, kinds=_MOVES),
    ),
    Mutant(
        "leader-moved-within-its-epoch",
        "I-3, I-30, I-97",
        "a leader that is moved within an unchanged ISR leads in the epoch of its predecessor",
        (
            Edit(
                _STATE,
                "    leader_epoch = LeaderEpoch(partition.leader_epoch"
                " + (change.leader is not None))\n",
                "    leader_epoch = LeaderEpoch(\n"
                "        partition.leader_epoch\n"
                "        + (\n"
                "            change.leader is not None\n"
                "            and (change.isr is not None or change.leader == NO_LEADER)\n"
                "        )\n"
                "    )\n",
            ),
        ),
        Needs(topology={"balance_s": 1}, kinds=_MOVES),
    ),
    Mutant(
        "balance-in-the-middle-of-a-failure",
        "I-97, as P-56: no thrash",
        "leaders come back while brokers are coming and going, as soon as they are in sync",
        (
            Edit(
                _BALANCE,
                "        return max(0, self._since_ms + self._session_ms - now_ms)\n",
                "        return 0\n",
            ),
        ),
        Needs(topology={"balance_s": 1}, kinds=("kill", "stop", "pause", "power")),
    ),
    Mutant(
        "balance-that-unrest-ends",
        "I-88, I-97",
        "leaders do not return by themselves for an hour after a broker has come or gone",
        (
            Edit(
                _BALANCE,
                "    def on_unrest(self, now_ms: int) -> None:\n        self._since_ms = now_ms\n",
                "    def on_unrest(self, now_ms: int) -> None:\n"
                "        self._since_ms = now_ms + 3_600_000\n",
            ),
        ),
        Needs(topology={"balance_s": 2}, kinds=("kill", "stop", "move-leader")),
    ),
)
