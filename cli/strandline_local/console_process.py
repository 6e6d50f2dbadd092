"""The console of a local cluster: a process beside the servers, which ends with them."""

import signal
from pathlib import Path
from typing import Final

from strandline_local.patience import Patience
from strandline_local.processes import ServerProcess

STOP_S: Final = 10.0


def console_process(directory: Path) -> ServerProcess:
    """The process of the console of the cluster in `directory`."""
    return ServerProcess(
        name="console",
        pid_file=directory / "run" / "console.pid",
        log_file=directory / "logs" / "console.log",
    )


def stop_console(directory: Path) -> None:
    """Stop the console, if there is one. It heals its faults first."""
    process = console_process(directory)
    if process.recorded:
        process.send(signal.SIGTERM)
        process.end_by(Patience(STOP_S, tuple))
        process.forget()
