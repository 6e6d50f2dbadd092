"""The rules that every record of the controller's log must obey."""


class BrokenRule(AssertionError):
    """A record does not fit the state before it. In our own decision this is our bug, which ends
    the process. From a disk it means that the log differs from what was written.
    """


def must(holds: bool, about: object) -> None:
    """Raise BrokenRule, which names the record or its result, unless `holds`."""
    if not holds:
        raise BrokenRule(about)
