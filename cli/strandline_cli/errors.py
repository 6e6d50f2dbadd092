"""The errors of a command, as its user sees them."""

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130


class CliError(Exception):
    """One line for the user: what happened, where, and what to do about it."""

    exit_code = EXIT_FAILED


class UsageMistake(CliError):
    """The command line contradicts itself or names something that cannot be."""

    exit_code = EXIT_USAGE


class OutputFailed(CliError):
    """Standard output is closed, or accepts no more."""


class ReaderLeft(Exception):
    """The reader of our output, `head` for instance, has ended."""
