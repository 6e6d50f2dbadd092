"""A history of the model in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.model.values import BROKERS, IsrRequest
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from strandline_proof.model.values import Node, State
    from strandline_proof.model.world import Action, World


def describe(world: World, action: Action, before: State, after: State) -> str:
    """One line of a trace: what happens, and what changes."""
    name, b, *rest = action
    words = [f"broker {b} {name.replace('-', ' ')}", *(f"({r} records left)" for r in rest)]
    was, now = world.node(before, b), world.node(after, b)
    changes = []
    for broker_id in BROKERS:
        old, new = world.node(before, broker_id), world.node(after, broker_id)
        if old.log != new.log:
            changes.append(f"log {broker_id}: {_log(new)}")
    if was.alter != now.alter and isinstance(now.alter, IsrRequest):
        asked = [m.broker_id for m in now.alter.isr]
        changes.append(f"asks for ISR {asked}")
    decided = world.decided(after)
    if decided != world.decided(before):
        leader = "no broker" if decided.leader == NO_LEADER else f"broker {decided.leader}"
        changes.append(
            f"controller: {leader} leads in epoch {decided.leader_epoch}, ISR {list(decided.isr)}"
        )
    committed = world.ghost(after).committed
    if committed != world.ghost(before).committed:
        changes.append(f"{len(committed)} committed")
    return " ".join(words) + (f"; {'; '.join(changes)}" if changes else "")


def _log(node: Node) -> str:
    records = " ".join(f"{at}@{entry[0]}" for at, entry in enumerate(node.log.entries))
    return f"[{records}] hw {node.log.high_watermark}"
