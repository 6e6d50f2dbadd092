"""The errors of a local cluster, as the user of a command or of a test sees them."""

import errno
from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


class ClusterError(Exception):
    """One line for the user: what happened, where, and what to do about it."""

    exit_code = EXIT_FAILED


class UsageMistake(ClusterError):
    """The caller contradicts itself or names something that cannot be."""

    exit_code = EXIT_USAGE


def remedy_of(why: OSError) -> str:
    """The advice for what the system refuses to a cluster that starts."""
    if why.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit on open files (ulimit -n), or close some"
    if why.errno == errno.ENOSPC:
        return "make room on the disk, or use another directory"
    if why.errno in (errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL):
        return "servers listen on 127.0.0.1: bring the loopback up (ip link set lo up)"
    return "check the limits of this user on processes and memory (ulimit -a)"
