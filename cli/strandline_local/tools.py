"""Programs of the machine that faults are made with: run to their end, with a deadline."""

import subprocess
from typing import Final

from strandline_local.errors import ClusterError

_TOOL_S: Final = 60.0


def run_tool(*command: object, stdin: str | None = None) -> str:
    """Output of a command that has ended well. Raises ClusterError with its error output."""
    words = list(map(str, command))
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=_TOOL_S, check=False
        )
    except FileNotFoundError:
        raise ClusterError(f"there is no program {words[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{' '.join(words)}` did not end within {_TOOL_S:.0f} s") from None
    if done.returncode != 0:
        why = (done.stderr or done.stdout).strip()
        raise ClusterError(f"`{' '.join(words)}` failed: {why}")
    return done.stdout
