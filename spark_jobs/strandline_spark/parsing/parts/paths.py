"""The paths by which columns name fields within fields, in two spellings.

- `page.url` and `items[0].sku`. A record that has a field of exactly this name gives that one. A
  text that is no path, such as `a]`, is the name of a field.
- JSON paths: `$.page.url`, `$['page.url']`, `$.items[-1]`, and `$` for the whole value.

A path names one place, so it has no wildcard, slice or filter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

Step = str | int
"""The name of a field, or the place of an element; a negative one counts from the end."""
STEPS_MAX: Final = 100
_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[\]]+)"
    r"|\[(?P<place>-?(?:0|[1-9][0-9]{0,8}))\]"
    r"""|\['(?P<single>(?:[^'\\]|\\.)*)'\]"""
    r"""|\["(?P<double>(?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED: Final = re.compile(r"\\(.)")
_MANY: Final = re.compile(r"\.\.|\*|\[\s*\?|\[[^\]]*[:,]")
"""What JSON paths to several places have."""
_MEANT: Final = re.compile(r"^\.|\.\.|\.$|\[(\*|\?.*)?\]")
"""What only paths have, in a text that is no name of a field."""
_OBJECT: Final = "object"
_ARRAY: Final = "array"


@dataclass(frozen=True, slots=True)
class Path:
    """One place in a value."""

    text: str
    """The path as written."""
    steps: tuple[Step, ...]
    """None for the whole value."""
    name: str | None = None
    """Name of a field of the value that comes first, if the value has it."""

    @property
    def plain(self) -> str | None:
        """The name of the value's own field that the path is; None for another path."""
        first = self.steps[0] if len(self.steps) == 1 else None
        return first if isinstance(first, str) else None

    @property
    def tops(self) -> tuple[str, ...]:
        """Names of the value's own fields that the path may lead into."""
        return tuple(one for one in (self.name, *self.steps[:1]) if isinstance(one, str))

    def found_in(self, value: Any) -> Any:
        """Returns what a decoded value has at this place; None for nothing. Raises NoPlaceError if
        the path leads into a value that has no such parts.
        """
        if self.name is not None and type(value) is dict and self.name in value:
            return value[self.name]
        for number, step in enumerate(self.steps):
            if value is None:
                return None
            if isinstance(step, str):
                if type(value) is not dict:
                    raise NoPlaceError(said(self.steps[:number]), value, _OBJECT)
                value = value.get(step)
            else:
                if type(value) is not list:
                    raise NoPlaceError(said(self.steps[:number]), value, _ARRAY)
                value = value[step] if -len(value) <= step < len(value) else None
        return value

    def steps_in(self, value: Any) -> tuple[Step, ...]:
        """Returns the steps that `found_in` takes in this value."""
        if self.name is not None and type(value) is dict and self.name in value:
            return (self.name,)
        return self.steps


class NoPlaceError(ValueError):
    """A path leads into a value that has no fields or no elements."""

    def __init__(self, where: str, value: Any, wanted: str) -> None:
        super().__init__(where)
        self.where = where
        self.value = value
        self.wanted = wanted
        """The kind of value that would have such a place."""


@cache
def path_of(text: str) -> Path:
    """Returns the path of a field's text. Raises OptionError."""
    if text == "":
        return path_to(text)
    is_json_path = text == "$" or text.startswith(("$.", "$["))
    rest = text[1:] if is_json_path else f".{text}"
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (is_json_path and found["name"] == "*"):
            if not is_json_path and _MEANT.search(text) is None:
                return path_to(text)
            raise OptionError(_objection(text, rest[at:]))
        steps.append(_step(found))
        at = found.end()
    if len(steps) > STEPS_MAX:
        raise OptionError(f"field {text!r} has more than {STEPS_MAX} steps: give a shorter path")
    name = None if is_json_path or len(steps) == 1 else text
    return Path(text, tuple(steps), name)


def path_to(name: str) -> Path:
    """Returns the path to the value's own field of this name, whatever characters it has."""
    return Path(name, (name,))


def field_text(name: str) -> str:
    """Returns the text that a column's `field` has for the value's own field of this name."""
    try:
        found = path_of(name)
    except OptionError:
        found = None
    return name if found is not None and name in found.tops else said((name,), is_full=True)


def said(steps: Iterable[Step], *, is_full: bool = False) -> str:
    """Returns the steps in a path's spelling."""
    out = "$" if is_full else ""
    for step in steps:
        if isinstance(step, int):
            out += f"[{step}]"
        elif re.search(r"[.\[\]'\"\\*]", step) or step == "":
            out += "['" + re.sub(r"(['\\])", r"\\\1", step) + "']"
        else:
            out += f".{step}" if out else step
    return out


def _step(found: re.Match[str]) -> Step:
    if found["place"] is not None:
        return int(found["place"])
    if found["name"] is not None:
        return found["name"]
    quoted = found["single"] if found["single"] is not None else found["double"]
    return _ESCAPED.sub(r"\1", quoted)


def _objection(text: str, rest: str) -> str:
    if _MANY.search(text) and not (".." in text and not text.startswith("$")):
        return (
            f"field {text!r} names many places, and a column holds one value: name one of them, as"
            " in items[0], or make the array a column of type array<…>"
        )
    return (
        f"field {text!r} is no path from {rest!r} on: write names with a point between, and places"
        f" as [0], as in page.items[0].url; a field of the name {text!r} itself is"
        f" {said((text,), is_full=True)}"
    )
