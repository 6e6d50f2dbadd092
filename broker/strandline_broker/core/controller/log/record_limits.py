"""What every record of the controller's log must fit."""


class BrokenRule(AssertionError):
    """A record does not fit the state before it. From our own decision that is our mistake, which
    ends the process; from a disk it means that the log is not what was written.
    """


def must(holds: bool, about: object) -> None:
    """Raises BrokenRule, which names the record or what it would make."""
    if not holds:
        raise BrokenRule(about)
