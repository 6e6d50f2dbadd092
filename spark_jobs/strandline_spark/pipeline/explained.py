"""The mistakes of a pipeline.toml in the file's own terms: section, key and line."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strandline_spark.pipeline.keys import (
    BronzeKeys,
    ColumnKeys,
    DedupeKeys,
    FileKeys,
    GoldKeys,
    PipelineKeys,
    SilverKeys,
    StateKeys,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.pipeline.lines import Lines, Path

_AT: Final = re.compile(r"(.*?)(?: - at `\$(.*)`)?")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_NAME: Final = r"'[^']*'|[^\s:=,]+"
_PLACE: Final = re.compile(
    rf"\[\[(gold|state)\]\] ({_NAME})(?:, ({_NAME}))?|\[([\w.]+)\](?: ({_NAME}))?"
)
_IN_SILVER: Final = re.compile(rf"\[silver(\.columns)?\](?: ({_NAME}))?")
_OF_PART: Final = re.compile(rf"\[\[silver\]\] ({_NAME})(?:, ({_NAME}))?")
STEPS: Final = ("gold", "state")
"""Sections in double brackets."""


def explained(why: str, found: dict[str, Any], lines: Lines) -> str:
    """Returns msgspec's error about the content `found` in the file's terms."""
    at = _AT.fullmatch(why)
    assert at is not None
    said, path = at[1], _path(at[2] or "", found)
    key = _UNKNOWN.fullmatch(said) or _MISSING.fullmatch(said)
    if key is not None:
        path = (*path, key[1])
    where, line = _where(path, found), f" (line {lines.of(path)})"
    if _MISSING.fullmatch(said):
        return f"{where} is missing{line}: give it a value"
    if key is not None:
        known = _known_keys(path)
        near = difflib.get_close_matches(key[1], known, 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        return f"{where}{line}: unknown key{meant}; there are {', '.join(known)}"
    if len(_column(path)) == 1:
        said += ": give a type, as 'bigint', or { type = 'timestamp', format = '%d.%m.%Y' }"
    return f"{where}{line}: {said}"


def located(
    said: str,
    lines: Lines,
    names: Mapping[str, Sequence[str]],
    *,
    step: int | None = None,
    parts: Sequence[str | None] = (),
) -> str:
    """Returns the message with the line, if it begins with a place without one: `[section] key`,
    `[[gold]] step, key` or `[[silver]] table, key`.

    `names` are those of the steps by their section; `step` is the number of the step at fault;
    `parts` are the names of the silver tables.
    """
    found = _OF_PART.match(said)
    if found is not None:
        return _of_part(said, found, lines, parts)
    found = _PLACE.match(said)
    if found is None or said.startswith(" (line ", found.end()):
        return said
    steps, name, key, section, of_section = (part and part.strip("'") for part in found.groups())
    path: Path = tuple(section.split(".")) if section else (steps,)
    if name:
        known = names.get(steps, ())
        number = known.index(name) if step is None and name in known else step
        path = path if number is None else (*path, number)
    if key or of_section:
        path = (*path, key or of_section)
    return f"{found[0]} (line {lines.of(path)}){said[found.end() :]}"


def located_in_part(said: str, lines: Lines, number: int, name: str | None) -> str:
    """Returns a message about `[silver] key` as one about that key of the [[silver]] `number`, with
    its line.
    """
    found = _IN_SILVER.match(said)
    if found is None:
        return said
    inner: Path = ("columns",) if found[1] else ()
    key = None if found[2] is None else found[2].strip("'")
    path: Path = ("silver", number, *inner, *(() if key is None else (key,)))
    shown = "".join(f", {part}" for part in path[2:])
    place = f"[[silver]] {name or number + 1}{shown} (line {lines.of(path)})"
    return place + said[found.end() :]


def _of_part(said: str, found: re.Match[str], lines: Lines, parts: Sequence[str | None]) -> str:
    """Returns the message with the line of a [[silver]], of which it has the name or number."""
    if said.startswith((" (line ", ", "), found.end()):
        return said
    name, key = found[1].strip("'"), found[2]
    path: Path = ("silver",)
    if name in parts:
        path = (*path, parts.index(name))
    elif name.isdecimal():
        path = (*path, int(name) - 1)
    path = (*path, key) if key else path
    return f"{found[0]} (line {lines.of(path)}){said[found.end() :]}"


def _path(text: str, found: dict[str, Any]) -> Path:
    """Returns the path of `.gold[1].window`; msgspec says `.silver.columns[...]` for any column."""
    columns, _, rest = text.partition("[...]")
    path: Path = tuple(name or int(number) for name, number in _STEP.findall(columns))
    if path[:1] == ("silver",) and path[-1:] == ("columns",) and columns != text:
        table = found["silver"] if len(path) == 2 else found["silver"][path[1]]
        path = (*path, _wrong_column(table["columns"]))
    return path + tuple(name for name, _ in _STEP.findall(rest))


def _where(path: Path, found: dict[str, Any]) -> str:
    """Returns `("gold", 1, "sql")` as `[[gold]] delays, sql`."""
    if len(path) > 1 and path[0] in STEPS:
        step = found[str(path[0])][path[1]]
        rest = "".join(f", {part}" for part in path[2:3])
        return f"[[{path[0]}]] {_name(step, int(path[1]))}{rest}"
    if len(path) > 1 and path[0] == "silver" and isinstance(path[1], int):
        rest = "".join(f", {part}" for part in path[2:])
        return f"[[silver]] {_name(found['silver'][path[1]], path[1])}{rest}"
    if _column(path):
        rest = "".join(f", {part}" for part in path[3:])
        return f"[silver.columns] {path[2]}{rest}"
    if len(path) == 1:
        inner = found.get(str(path[0]))
        return f"[{path[0]}]" if isinstance(inner, dict) else str(path[0])
    rest = "".join(f", {part}" for part in path[2:])
    return f"[{path[0]}] {path[1]}{rest}"


def _column(path: Path) -> Path:
    """Returns the part of the path that begins with a column's name, if there is one."""
    own = tuple(part for part in path if not isinstance(part, int))
    return own[2:] if own[:2] == ("silver", "columns") else ()


def _name(step: Any, number: int) -> Any:
    return step.get("name", number + 1) if isinstance(step, dict) else number + 1


def _wrong_column(columns: Any) -> str:
    for name, kind in columns.items():
        try:
            msgspec.convert(kind, str | ColumnKeys)
        except msgspec.ValidationError:
            return str(name)
    raise AssertionError(columns)


def _known_keys(path: Path) -> list[str]:
    """Returns the known keys beside the last one of the path."""
    sections: dict[Any, Any] = {
        "pipeline": PipelineKeys,
        "silver": SilverKeys,
        "bronze": BronzeKeys,
        "gold": GoldKeys,
        "state": StateKeys,
    }
    kind = sections[path[0]] if len(path) > 1 else FileKeys
    if _column(path):
        kind = ColumnKeys
    if "dedupe" in path[1:-1]:
        kind = DedupeKeys
    return [field.encode_name for field in msgspec.structs.fields(kind)]
