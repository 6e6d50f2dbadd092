"""Promises in seconds, tested on machines that may be busy."""

from collections.abc import Awaitable, Callable

ATTEMPTS = 4


async def kept_within(bound_s: float, attempt: Callable[[], Awaitable[float]]) -> None:
    """One attempt of a few stays below the bound. `attempt` gives the seconds that it took.

    A busy machine delays some attempts. A delay that the product has of itself is in each.
    """
    taken_s: list[float] = []
    for _ in range(ATTEMPTS):
        taken_s.append(await attempt())
        if taken_s[-1] < bound_s:
            return
    raise AssertionError(f"every attempt took {bound_s} s or more: {taken_s}")
