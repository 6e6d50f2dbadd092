"""Runs plans in a process of its own, for a sweep on all cores.

    python -m strandline_chaos.sim.worker

It says `ready`, then answers each plan, a line of JSON on its input, with a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

from strandline_chaos.sim.plan import read_plan
from strandline_chaos.sim.sweep import kept_out_of_collections, run_here

READY = b"ready\n"


def main() -> None:
    """Until the input ends."""
    # What anybody prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout = sys.stderr
    with kept_out_of_collections():
        answers.write(READY)
        for line in sys.stdin:
            result = run_here(read_plan(line, commit=""))
            answers.write(json.dumps(result.document()).encode() + b"\n")


if __name__ == "__main__":
    main()
