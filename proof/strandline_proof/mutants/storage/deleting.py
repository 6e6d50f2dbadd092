"""Bugs of DeleteRecords and retention: what goes, and which replicas must know before the
answer.
"""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_LEADER: Final = "strandline_broker.core.replication.leader"
_RETENTION: Final = "strandline_broker.core.retention"

_DELETE: Final = {"partition": 0, "back": 0}
_HEIR_SLEEPS: Final = tuple(
    fault
    for start_s in (1.5, 4.0, 6.5)
    for fault in (
        Fault(start_s, "pause", {"node": "heir-0", "for_s": 0.8}),
        Fault(start_s + 0.05, "delete-records", _DELETE),
        Fault(start_s + 0.3, "kill", {"node": "leader-0", "restart_s": 0.6}),
    )
)
"""The next leader has not learned of a deletion."""

DELETING: Final = (
    Mutant(
        "deletion-answered-by-the-leader-alone",
        "I-75",
        "records are reported as deleted when the leader alone has deleted them",
        (
            Edit(
                _LEADER,
                "                low = min(low, -1 if start is None else start)\n",
                "                low = min(low, low if start is None else max(low, start))\n",
            ),
        ),
        Needs(kinds=("delete-records",), aimed=_HEIR_SLEEPS),
    ),
    Mutant(
        "retention-keeps-half",
        "P-50, I-74",
        "retention by size deletes segments within the limit",
        (
            Edit(
                _RETENTION,
                "            and log_bytes - segment.size_bytes >= self.retention_bytes\n",
                "            and log_bytes - segment.size_bytes >= self.retention_bytes // 2\n",
            ),
        ),
        Needs(
            topology={"retention_check_ms": 600, "segment_bytes": 400},
            kinds=("retention", "kill"),
        ),
    ),
)
