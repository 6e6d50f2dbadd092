"""The child process of `crash_guard`, run as `python -m … FOLDER`. It parses the requested parts of
the batch in the folder, and answers each with an empty line or with the parser's error. A record
that ends its parser ends this process, not the worker.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import sys

from strandline_spark.errors import StrandlineSparkError, first_line
from strandline_spark.parsing.parser import make_parser
from strandline_spark.silver.crash_guard import part_of, read_batch, read_settings

_GRACE_SECONDS = 30.0
"""Time beyond the deadline: the parent ends a late child, unless the parent itself is gone."""


def main(folder: str) -> None:
    # The output of a library is no answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # A machine short of memory ends this process first.
        file.write("1000")
    parser = make_parser(read_settings(folder))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start, stop, seconds = line.split()
        faulthandler.dump_traceback_later(float(seconds) + _GRACE_SECONDS, exit=True)
        said = ""
        try:
            parser.parse(part_of(read_batch(folder), int(start), int(stop)))
        except StrandlineSparkError:
            # The worker raises this error as well.
            pass
        except Exception as why:  # noqa: BLE001 - a fault of the parser is the record's too
            said = f"{type(why).__name__}: {first_line(why)}"
        faulthandler.cancel_dump_traceback_later()
        print(said, file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
