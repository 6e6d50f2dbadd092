"""The harness's end of a driver: a process that answers one JSON request a line."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Any

from conformance.harness.versions import TESTS

if TYPE_CHECKING:
    from collections.abc import Sequence

CALL_TIMEOUT_S = 90.0
_CLOSE_TIMEOUT_S = 5.0


class DriverError(Exception):
    """The client failed, or the driver gave no answer."""


class UnsupportedError(Exception):
    """The client has no such operation."""


class Driver:
    """One client process. Calls come from one thread at a time."""

    def __init__(self, name: str, command: Sequence[str], bootstrap: str) -> None:
        self.name = name
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            text=True,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, op: str, *, timeout_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        """The answer of an operation.

        An argument `wait_s` is the operation's own `timeout_s`; the call's limit is beyond it.
        """
        if (wait_s := arguments.pop("wait_s", None)) is not None:
            arguments["timeout_s"] = wait_s
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            stdin.flush()
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self._process.kill()
            raise DriverError(f"{self.name} gave no answer to {op} in {timeout_s} s") from None
        except OSError:
            line = None
        if line is None:
            raise DriverError(f"{self.name} ended during {op}: {self.complaints()}")
        answer = json.loads(line)
        if answer.get("unsupported"):
            raise UnsupportedError(answer["error"])
        if not answer["ok"]:
            raise DriverError(f"{op}: {answer['error']}")
        return answer

    def complaints(self) -> str:
        """The end of what the process wrote to standard error."""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-1500:]

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(_CLOSE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._complaints.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._answers.put(line)
        self._answers.put(None)
