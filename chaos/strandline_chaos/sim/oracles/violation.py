"""What an oracle raises: the number of the invariant and what contradicts it."""


class Violation(AssertionError):
    """`invariant` is a number of REPLICATION.md, for instance I-14."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
