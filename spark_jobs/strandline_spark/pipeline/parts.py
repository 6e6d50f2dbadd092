"""The silver tables of one pipeline: each topic has exactly one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.pipeline.keys import SilverKeys

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_name(where: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise OptionError(f"{where} = {name!r}: give letters, digits, - and _ alone")


def part_names(given: SilverKeys | list[SilverKeys]) -> list[str | None]:
    """Returns the name of each silver table, None for one without."""
    return [one.name for one in given] if isinstance(given, list) else [given.name]


def check_parts(tables: Sequence[SilverKeys], topics: Sequence[str]) -> None:
    """Raises OptionError unless each topic of the pipeline has one silver table."""
    if not tables:
        raise OptionError("[silver]: there is none; give one, or [[silver]] for several tables")
    names: list[str] = []
    owners: dict[str, str] = {}
    for number, one in enumerate(tables):
        where = f"[[silver]] {one.name or number + 1}"
        if one.name is not None:
            check_name(f"[[silver]] {number + 1}, name", one.name)
        if len(tables) > 1 and (one.name is None or not one.topics):
            lacks = "name" if one.name is None else "topics"
            raise OptionError(f"{where}, {lacks}: it has none, and each of several tables needs it")
        if one.name in names:
            raise OptionError(f"{where}, name: two tables have this name; give each its own")
        names.append(one.name or "")
        for topic in one.topics:
            if topic not in topics:
                raise OptionError(
                    f"{where}, topics: {topic!r} is none of [pipeline] topics, {', '.join(topics)};"
                    " name it there too"
                )
            if topic in owners:
                raise OptionError(
                    f"{where}, topics: {topic!r} is in {owners[topic]} already, and a topic has one"
                    " silver table; take one of the two out"
                )
            owners[topic] = where
    lacking = [topic for topic in topics if owners and topic not in owners]
    if lacking:
        raise OptionError(
            f"[pipeline] topics: {lacking[0]!r} is in no [[silver]]; name it in the topics of one"
        )


def silver_of(where: str, given: str | None, tables: Sequence[str | None]) -> str | None:
    """Returns the name of the silver table that a step reads; `given` is what it says. Raises
    OptionError.
    """
    known = ", ".join(name for name in tables if name is not None)
    if given is None and len(tables) > 1:
        raise OptionError(f"{where}: several silver tables are there; give silver, one of {known}")
    if given is not None and given not in tables:
        there = f"there are {known}" if known else "the only one has no name; leave silver out"
        raise OptionError(f"{where}, silver = {given!r} is no silver table: {there}")
    return tables[0] if given is None else given
