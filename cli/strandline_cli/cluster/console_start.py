"""The start of the console of a local cluster."""

import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError
from strandline_local.console_process import console_process, stop_console
from strandline_local.patience import Patience
from strandline_local.processes import ServerProcess
from strandline_runtime.extras import what_is_missing
from strandline_runtime.real import port_is_free

HOST: Final = "127.0.0.1"
TOKEN_VARIABLE: Final = "STRANDLINE_CONSOLE_TOKEN"
"""Environment variable with the token for faults; without it each start has a new one."""
READY_S: Final = 30.0
_POLL_S: Final = 0.05
_ADDRESS: Final = re.compile(r"^The console is at (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers."""

    address: str
    token: str


def check_console(port: int) -> None:
    """Raises CliError, before anything is started, if no console can listen on the port."""
    if missing := what_is_missing("console"):
        raise CliError(missing)
    if port != 0 and not port_is_free(HOST, port):
        raise CliError(
            f"port {port} for the console is in use: stop what listens there, or give another"
            " --console-port (0: a free one)"
        )


def start_console(directory: Path, port: int) -> RunningConsole:
    """Start the console, and wait until it listens. Raises CliError."""
    process = console_process(directory)
    stop_console(directory)
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(18)
    before = process.log_file.stat().st_size if process.log_file.exists() else 0
    # It waits longer than this command, which knows whether the console computes or idles.
    words = ["console", "--dir", str(directory), "--port", str(port), "--wait", str(4 * READY_S)]
    program = "from strandline_cli.main import main; main()"
    process.start([sys.executable, "-c", program, *words], {**os.environ, TOKEN_VARIABLE: token})
    patience = Patience(READY_S, lambda: [pid] if (pid := process.pid) is not None else [])
    address = _wait_for(lambda: _address_in(process.log_file, before), process, patience)
    return RunningConsole(address, token)


def _wait_for(look: Callable[[], str | None], process: ServerProcess, patience: Patience) -> str:
    while (found := look()) is None:
        last = "".join(f"\n  {line}" for line in process.last_log_lines(3))
        if process.pid is None:
            process.forget()
            raise CliError(f"the console has ended; its log, {process.log_file}, ends with:{last}")
        if patience.is_over():
            raise CliError(f"the console does not answer in time; see {process.log_file}{last}")
        time.sleep(_POLL_S)
    return found


def _address_in(log_file: Path, start: int) -> str | None:
    with log_file.open("rb") as log:
        log.seek(start)
        found = _ADDRESS.search(log.read().decode(errors="replace"))
    return None if found is None else found[1]
