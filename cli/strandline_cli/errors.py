"""What a command tells its user when it cannot do what was asked."""

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
    """Standard output is closed, or takes nothing more."""


class ReaderLeft(Exception):
    """Whoever read our output, `head` for instance, has seen enough."""
