"""`python -m conformance.harness.transfers`: `strandline chaos transfers` with all clients.

Five movers (three of ours, Java, librdkafka) run beside three readers (one each). Further arguments
are the command's.
"""

from __future__ import annotations

import os
import shlex
import sys

from conformance.harness import installed
from conformance.harness.versions import HERE

JAVA = "4.4.0"


def confluent() -> list[str]:
    """The program with confluent-kafka."""
    return [*installed.python(), str(HERE / "clients" / "transfers_confluent.py")]


def java() -> list[str]:
    """The program with Java's client."""
    return installed.java("Transfers.java", installed.client_jars(JAVA))


def options() -> list[str]:
    """The options of the command that add these clients."""
    foreign = [shlex.join(confluent()), shlex.join(java())]
    return [word for each in foreign for word in ("--mover", each, "--reader", each)]


def main() -> None:
    program = "from strandline_cli.main import main; main()"
    command = [sys.executable, "-c", program, "chaos", "transfers"]
    os.execv(sys.executable, [*command, *options(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
