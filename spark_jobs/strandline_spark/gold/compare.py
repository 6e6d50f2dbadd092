"""Two results of one statement compared as multisets of rows, floats by a relative tolerance: a sum
depends on the order in which Spark has added.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOLERANCE: Final = 1e-9
Row = dict[str, Any]


def difference(expected: Iterable[Row], held: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that only the first has, and those that only the second has."""
    candidates: dict[Any, list[tuple[list[float], Row]]] = defaultdict(list)
    for row in held:
        candidates[_exact(row)].append((list(_floats(row)), row))
    missing = []
    for row in expected:
        floats = list(_floats(row))
        same = candidates.get(_exact(row), [])
        found = next((n for n, (other, _) in enumerate(same) if _close(floats, other)), None)
        if found is None:
            missing.append(row)
        else:
            same.pop(found)
    return missing, [row for same in candidates.values() for _, row in same]


def _exact(value: Any) -> Any:
    """What two equal values have in common whatever their floats are."""
    if isinstance(value, float):
        return float
    if isinstance(value, dict):
        return tuple((name, _exact(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(_exact(one) for one in value)
    # True is 1 for a dictionary, and text and bytes may look the same.
    return type(value), value


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _floats(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _floats(one)


def _close(some: list[float], others: list[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(some, others, strict=True)
    )
