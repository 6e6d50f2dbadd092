"""Files and directories that the `log` commands read: named as the user named them, never written
to, and not those of a running broker.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from strandline_cli.errors import EXIT_USAGE, CliError

CompactedOption = Annotated[
    bool,
    typer.Option("--compacted", help="Allow gaps between offsets: the topic is compacted."),
]
_LOCK: Final = ".lock"
_ROOTS_ABOVE: Final = 2


class CannotRead(CliError):
    """No input can be read; this is not a finding."""

    exit_code = EXIT_USAGE


@contextmanager
def readable(what: Path) -> Iterator[str]:
    """The path in the form that the readers take. A system error becomes one line that names the
    path.
    """
    try:
        yield os.path.normpath(what)
    except FileNotFoundError as error:
        raise CannotRead(f"{error.filename or what} does not exist") from error
    except PermissionError as error:
        raise CannotRead(f"{error.filename or what} may not be read: check its owner") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotRead(f"{error.filename or what} cannot be read ({why})") from error


@contextmanager
def not_in_use(path: str) -> Iterator[None]:
    """Refuse the directory of a running broker, whose files change under the reader. A shared lock
    on the broker's lock file prevents a start meanwhile.
    """
    held = []
    try:
        for root in (path, os.path.dirname(os.path.abspath(path))):
            try:
                fd = os.open(f"{root}/{_LOCK}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # no broker has been here, or this user could not have started one
            held.append(fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                raise CannotRead(
                    f"{root} is in use by a running broker, which changes it: stop the broker, or "
                    f"give a copy of the directory"
                ) from error
        yield
    finally:
        for fd in held:
            os.close(fd)
