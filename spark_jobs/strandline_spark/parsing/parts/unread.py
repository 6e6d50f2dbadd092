"""The fields of objects that columns read in part, and that no column reads.

A field of the value itself without a column is a new field. A field within an object of which a
column reads another part is left out, and this module names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing.parts.paths import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.parsing.parts.explode import Explode
    from strandline_spark.parsing.parts.paths import Path, Step
    from strandline_spark.parsing.settings import ColumnType

PLACES_MAX: Final = 20
"""Places that are named for a batch: names may be data."""


@dataclass(slots=True)
class _Place:
    """A place that a column reads, or that leads to one."""

    fields: dict[str, _Place] = field(default_factory=dict)
    inner: _Place | None = None
    """All elements of an array, or all values of a map."""
    is_whole: bool = False
    """True if a column reads all that is there."""

    def at(self, step: Step) -> _Place:
        if isinstance(step, str):
            return self.fields.setdefault(step, _Place())
        return self.within()

    def within(self) -> _Place:
        self.inner = self.inner or _Place()
        return self.inner

    def add(self, kind: ColumnType) -> None:
        """Adds what a column of this type reads here."""
        parts = dict(kind.parts)
        if pa.types.is_struct(kind.arrow):
            for name, part in parts.items():
                self.at(name).add(part)
        elif pa.types.is_map(kind.arrow):
            self.within().add(parts["value"])
        elif pa.types.is_list(kind.arrow):
            self.within().add(parts["element"])
        else:
            self.is_whole = True


class Unread:
    """The places of one set of columns."""

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        paths: Mapping[str, Path],
        explode: Explode | None = None,
    ) -> None:
        self._top = _Place()
        for name, path in paths.items():
            self._reach(path.steps, explode, is_element=_is_in(name, explode)).add(columns[name])
            if path.name is not None:
                self._top.at(path.name).add(columns[name])
        if explode is not None:
            array = self._reach(explode.path.steps, None, is_element=False)
            array.is_whole = array.inner is None
        self.is_needed = any(
            place.fields or place.inner is not None for place in self._top.fields.values()
        )
        """False if columns read whole fields of the value alone."""

    def _reach(self, steps: Iterable[Step], explode: Explode | None, *, is_element: bool) -> _Place:
        place = self._top
        size = len(explode.path.steps) if explode is not None and is_element else -1
        for number, step in enumerate(steps):
            if number == size:
                place = place.within()
            place = place.at(step)
        return place.within() if size == len(tuple(steps)) else place

    def find(self, value: dict[str, Any], found: set[str]) -> None:
        """Adds the places in the value that no column reads."""
        for name, place in self._top.fields.items():
            inner = value.get(name)
            if type(inner) in (dict, list):
                _find(inner, place, said((name,)), found)


def _is_in(name: str, explode: Explode | None) -> bool:
    return explode is not None and explode.holds(name)


def _find(value: Any, place: _Place, where: str, found: set[str]) -> None:
    if place.is_whole or len(found) >= PLACES_MAX:
        return
    if type(value) is list:
        for one in value:
            if place.inner is not None:
                _find(one, place.inner, f"{where}[]", found)
    elif type(value) is dict:
        for name, one in value.items():
            at = f"{where}.{said((name,))}"
            if place.inner is not None:
                _find(one, place.inner, at, found)
            elif name in place.fields:
                _find(one, place.fields[name], at, found)
            elif one is not None and len(found) < PLACES_MAX:
                found.add(at)
