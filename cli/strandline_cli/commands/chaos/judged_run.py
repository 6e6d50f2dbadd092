"""The end of a chaos run, whatever causes it: its processes end first, then its folder goes."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError, ClusterError
from strandline_cli.interrupts import uninterrupted
from strandline_cli.shown.output import note

EXIT_NO_VERDICT: Final = 2


class NoVerdict(CliError):
    """The run ended before it could be judged."""

    exit_code = EXIT_NO_VERDICT


@dataclass
class Judged:
    is_sound: bool = False


@contextmanager
def judged_run(directory: Path, *ends: Callable[[], None]) -> Iterator[Judged]:
    """Calls `ends` at the end of the block. The folder goes if the block has found the run sound,
    or if it was interrupted. Raises NoVerdict for an error of the cluster.
    """
    judged = Judged()
    keep = True
    try:
        yield judged
        keep = not judged.is_sound
    except KeyboardInterrupt:
        keep = False
        note("interrupted: ending the cluster")
        raise
    except ClusterError as why:
        raise NoVerdict(str(why)) from why
    finally:
        with uninterrupted():
            for end in ends:
                end()
            if keep:
                note(f"logs and data of the run are in {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
