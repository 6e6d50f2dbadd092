"""The `strandline` command as a user runs it: a process, its output and its exit status."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from strandline_local.patience import Patience
from support.command_forks import Forks
from support.server_forks import server_forks

COMMAND = [sys.executable, "-c", "from strandline_cli.main import main; main()"]
DEADLINE_S = 180.0
_LOOK_S = 0.25
_STARTING = Lock()


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of error, without a traceback. Fails if there is anything else."""
        lines = self.err.strip().splitlines()
        assert "Traceback" not in self.err, self.err
        assert lines, self
        assert lines[0].startswith("error: "), self.err
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")


def strandline(
    *arguments: object,
    stdin: str | bytes = b"",
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float = DEADLINE_S,
) -> CompletedCommand:
    """Run `strandline` with these arguments; fails if it does not end by the deadline, which stands
    still while the command computes or waits for a processor.
    """
    given = stdin.encode() if isinstance(stdin, str) else stdin
    words, around, pipe = list(map(str, arguments)), clean_environ(environ), subprocess.PIPE
    command = (
        _forks().start(words, around, cwd)
        if _forks().can_take(words, around)
        else start_strandline(words, environ=environ, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe)
    )
    patience = Patience(deadline_s, lambda: [command.pid])
    with ThreadPoolExecutor(1) as pool:
        talk = pool.submit(command.communicate, given)
        try:
            while not wait([talk], timeout=_LOOK_S).done:
                assert not patience.is_over(), f"not within {deadline_s} s: {arguments}"
        finally:
            command.kill()  # which has ended, unless the test is broken off
        out, err = talk.result()
    assert command.returncode is not None
    return CompletedCommand(command.returncode, out.decode(), err.decode())


def _forks() -> Forks:
    with _STARTING:
        return _only_forks()


@cache
def _only_forks() -> Forks:
    forks = Forks(servers=server_forks())
    atexit.register(forks.close)
    return forks


def start_strandline(
    arguments: Sequence[object], *, environ: Mapping[str, str] | None = None, **options: Any
) -> "subprocess.Popen[bytes]":
    """Start `strandline` and let it run."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], env=clean_environ(environ), **options)


def clean_environ(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change the commands' behaviour, and without
    what tells a pytest of theirs that it is a worker of this one.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STRANDLINE_", "PYTEST_"))}
    return {**kept, **(more or {})}
