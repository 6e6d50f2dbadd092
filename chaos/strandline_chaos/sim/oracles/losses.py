"""What is lost is said to be lost: I-53 at the end of a run, when all replicas are level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_chaos.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.controller.state import ControllerState
    from strandline_chaos.sim.oracles.committed import Committed
    from strandline_chaos.sim.oracles.control import Key
    from strandline_chaos.sim.oracles.log_view import LogView


def check_reported(
    state: ControllerState,
    key: Key,
    ghost: Committed,
    view: LogView,
    start: int,
    sometimes: Counter[str],
) -> None:
    """`view`: a log of the partition, which begins at `start`. Committed records that it lacks were
    lost with the election of a leader that was not known to be in sync, and the controller has a
    report of it. Before its start it may hold another history (I-4): there its leader could not be
    asked any more where they part.
    """
    lost = [e for e in ghost.entries if e.base >= start and not view.holds(e)]
    if not lost or ghost.given_up:
        return
    reports = [r for r in state.losses if (r.topic_id, r.partition) == key]
    if not any(report.elected_uncleanly for report in reports):
        raise Violation(
            "I-53",
            f"{ghost.name}: committed offset {lost[0].base} is lost, and no election is reported"
            f" that may have cost it: {reports}",
        )
    sometimes["loss reported"] += 1
    if any(report.acknowledged for report in reports):
        sometimes["loss reported with a count"] += 1
