"""The comparison of two results of one statement as multisets of rows, whose columns have no order.
Floats are compared with a tolerance, because a sum depends on the order in which Spark adds. The
tolerance is a share of the value, or a margin from the size of the terms (`rounding.py`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TOLERANCE: Final = 1e-9
_MARGIN: Final = 4.0
"""Factor on the change that changed terms cause in a value."""
Row = dict[str, Any]


def difference(
    expected: Iterable[Row], held: Iterable[Row], margins: Mapping[Any, list[float]] | None = None
) -> tuple[list[Row], list[Row]]:
    """Returns the rows that only the first has, and those that only the second has. `margins` are
    those of the first, from `margins_of`.
    """
    candidates: dict[Any, list[tuple[list[float], Row]]] = defaultdict(list)
    for row in held:
        candidates[_exact(row)].append((list(_floats(row)), row))
    missing = []
    for row in expected:
        floats, key = list(_floats(row)), _exact(row)
        same = candidates.get(key, [])
        margin = (margins or {}).get(key) or [0.0] * len(floats)
        found = next(
            (n for n, (other, _) in enumerate(same) if _close(floats, other, margin)), None
        )
        if found is None:
            missing.append(row)
        else:
            same.pop(found)
    return missing, [row for same in candidates.values() for _, row in same]


def margins_of(rows: Iterable[Row], changed: Iterable[Iterable[Row]]) -> dict[Any, list[float]]:
    """Returns the tolerance of each float of a row, by the row's other values.

    `changed` are results of the same statement whose sums had slightly other terms. Rows with equal
    other values are left out, because they cannot be told apart.
    """
    base = _by_exact(rows)
    out = {key: [0.0] * len(floats) for key, floats in base.items()}
    for result in changed:
        for key, others in _by_exact(result).items():
            if len(base.get(key, ())) == len(others):
                for n, (a, b) in enumerate(zip(base[key], others, strict=True)):
                    off = abs(a - b)
                    if math.isfinite(off):
                        out[key][n] = max(out[key][n], _MARGIN * off)
    return out


def _by_exact(rows: Iterable[Row]) -> dict[Any, list[float]]:
    out: dict[Any, list[float]] = {}
    several = set()
    for row in rows:
        key = _exact(row)
        if key in out:
            several.add(key)
        out[key] = list(_floats(row))
    return {key: floats for key, floats in out.items() if key not in several}


def _exact(value: Any) -> Any:
    """Returns what two equal values have in common whatever their floats are."""
    if isinstance(value, float):
        return float
    if isinstance(value, dict):
        return tuple((name, _exact(one)) for name, one in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(_exact(one) for one in _in_order(value))
    # True is 1 for a dictionary, and text and bytes may look the same.
    return type(value), value


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for _, one in sorted(value.items()):
            yield from _floats(one)
    elif isinstance(value, list | tuple):
        for one in _in_order(value):
            yield from _floats(one)


def _in_order(value: list[Any] | tuple[Any, ...]) -> Iterable[Any]:
    """Returns the elements in a fixed order if they have none. A map is a list of pairs, which have
    no order; a list of anything else has one.
    """
    if isinstance(value, list) and all(isinstance(one, tuple) for one in value):
        return sorted(value, key=lambda pair: repr(_exact(pair[0])))
    return value


def _close(some: list[float], others: list[float], margins: list[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=margin) or (math.isnan(a) and math.isnan(b))
        for a, b, margin in zip(some, others, margins, strict=True)
    )
