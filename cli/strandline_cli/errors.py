"""The errors of a command, as its user sees them."""

from typing import Final

from strandline_local.errors import EXIT_FAILED, EXIT_USAGE, ClusterError, UsageMistake

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "CliError",
    "ClusterError",
    "OutputFailed",
    "ReaderLeft",
    "UsageMistake",
]

EXIT_OK: Final = 0
EXIT_INTERRUPTED: Final = 130


class CliError(ClusterError):
    """One line for the user of a command."""


class OutputFailed(CliError):
    """Standard output is closed, or accepts no more."""


class ReaderLeft(Exception):
    """The reader of our output, `head` for instance, has ended."""
