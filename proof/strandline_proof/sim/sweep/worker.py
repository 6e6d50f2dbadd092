"""Runs plans in a process of its own, for a sweep.

    python -m strandline_proof.sim.sweep.worker

The worker prints `ready`, then answers each plan, a line of JSON on its input, with a line of JSON.

A copy of this process carries out the runs, and after some of them the next copy does. A run leaves
its world behind in circles of references, and a copy ends without collecting them. So a run that
collects its own garbage (`oracles/process/descriptors.py`) does not look through that of earlier
runs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import BinaryIO, Final

from strandline_proof.sim.plan.plan import Plan, read_plan
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.sweep.sweep import run_here
from strandline_proof.sim.topology.topology import Topology

READY: Final = b"ready\n"
RUNS_PER_COPY: Final = 20
"""Runs of one copy; a run leaves about 5 MB."""
GO_ON: Final = 75
"""Exit status of a copy that has done its runs."""
DIED: Final = 128
"""Exit status of a killed copy, as in a shell: the signal's number is added."""
READ_MAX: Final = 1 << 20


def main() -> None:
    """Runs until the input ends. If a copy dies, this process ends with its status."""
    # Printed output must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()
    # Permanent state of runs then exists in every copy: modules imported when needed, caches.
    run_plan(Plan(0, Topology(), (), chaos_s=0.1))
    _say(answers, READY)
    status = GO_ON
    while status == GO_ON:
        copy = os.fork()
        if copy == 0:
            os._exit(_run_some(answers))
        status = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    sys.exit(status if status >= 0 else DIED + -status)


def _run_some(answers: BinaryIO) -> int:
    for _ in range(RUNS_PER_COPY):
        plan = _next_plan()
        if plan is None:
            return 0
        gc.freeze()
        _say(answers, json.dumps(run_here(plan).document()).encode() + b"\n")
    return GO_ON


def _next_plan() -> Plan | None:
    """The next plan. The pipe has at most one: the next is sent after the answer."""
    text = b""
    while not text.endswith(b"\n"):
        data = os.read(0, READ_MAX)
        if not data:
            return None
        text += data
    return read_plan(text.decode(), commit="")


def _say(answers: BinaryIO, what: bytes) -> None:
    answers.write(what)
    answers.flush()


if __name__ == "__main__":
    main()
