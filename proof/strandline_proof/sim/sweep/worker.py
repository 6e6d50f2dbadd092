"""Runs plans in a process of its own, for a sweep.

    python -m strandline_proof.sim.sweep.worker

It says `ready`, then answers each plan, a line of JSON on its input, with a line of JSON.

The runs are carried out by a copy of this process, and after some of them by the next copy. A run
leaves its world behind in circles of references; a copy ends without looking for them, and a run
that looks for its own (`oracles/process/descriptors.py`) does not look through those of the runs
before.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import BinaryIO, Final

from strandline_proof.sim.cluster.topology import Topology
from strandline_proof.sim.plan.plan import Plan, read_plan
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.sweep.sweep import run_here

READY: Final = b"ready\n"
RUNS_PER_COPY: Final = 20
"""A run leaves about 5 MB."""
GO_ON: Final = 75
"""Exit status of a copy that has done its runs."""
DIED: Final = 128
"""As a shell has it: the signal's number is added."""
READ_MAX: Final = 1 << 20


def main() -> None:
    """Until the input ends. If a copy dies, this process ends with its status."""
    # What anybody prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()
    # What runs need for good then exists in every copy: modules imported when needed, caches.
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
    """There is at most one in the pipe: the next is sent after the answer."""
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
