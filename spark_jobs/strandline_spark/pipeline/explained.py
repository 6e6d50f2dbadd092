"""What msgspec finds wrong in a pipeline.toml, in the file's own words: section, key and line."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

import msgspec

from strandline_spark.pipeline.keys import (
    BronzeKeys,
    ColumnKeys,
    FileKeys,
    GoldKeys,
    PipelineKeys,
    SilverKeys,
)

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$(.*)`)?")
_AT: Final = re.compile(r"(.*) - at `\$(.*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`(?: - at `\$(.*)`)?")


def explained(why: str, found: dict[str, Any], text: str) -> str:
    """What msgspec says, in the file's own words."""
    if unknown := _UNKNOWN.fullmatch(why):
        where, key = _section(unknown[2] or "", found), unknown[1]
        known = _known_keys(unknown[2] or "")
        near = difflib.get_close_matches(key, known, 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        return (
            f"{where}{key}{_line_of(text, key)}: unknown key{meant}; there are {', '.join(known)}"
        )
    if missing := _MISSING.fullmatch(why):
        where = _section(missing[2] or "", found)
        return f"{where}{missing[1]} is missing: give it a value"
    if at := _AT.fullmatch(why):
        path = at[2]
        key = path.rpartition(".")[2]
        return f"{_section(path.rpartition('.')[0], found)}{key}{_line_of(text, key)}: {at[1]}"
    return why


def _section(path: str, found: dict[str, Any]) -> str:
    """`.gold[1]` as `[[gold]] delays, `."""
    path = path.removeprefix(".")
    if step := re.fullmatch(r"gold\[(\d+|\.\.\.)\]", path):
        steps = found.get("gold")
        number = int(step[1]) if step[1].isdigit() else -1
        if isinstance(steps, list) and 0 <= number < len(steps) and isinstance(steps[number], dict):
            return f"[[gold]] {steps[number].get('name', number + 1)}, "
        return "[[gold]] "
    return f"[{path}] " if path else ""


def _known_keys(path: str) -> list[str]:
    sections: dict[str, Any] = {
        "pipeline": PipelineKeys,
        "silver": SilverKeys,
        "bronze": BronzeKeys,
        "gold": GoldKeys,
    }
    head = re.split(r"[.\[]", path.removeprefix("."))[0]
    kind = ColumnKeys if path.startswith(".silver.columns") else sections.get(head, FileKeys)
    return [field.name for field in msgspec.structs.fields(kind)]


def _line_of(text: str, key: str) -> str:
    """Where the key stands, if it stands once."""
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(rf'\s*["\']?{re.escape(key)}["\']?\s*=|\s*\[+\s*{re.escape(key)}\s*\]+', line)
    ]
    return f" (line {lines[0]})" if len(lines) == 1 else ""
