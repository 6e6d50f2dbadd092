"""The errors of a local cluster, as the user of a command or of a test sees them."""

from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


class ClusterError(Exception):
    """One line for the user: what happened, where, and what to do about it."""

    exit_code = EXIT_FAILED


class UsageMistake(ClusterError):
    """The caller contradicts itself or names something that cannot be."""

    exit_code = EXIT_USAGE
