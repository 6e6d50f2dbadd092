"""House rule on circles of imports in the servers: at most four files refer to each other.

Imports for annotations count too. A reader of one file of a circle has to know all of them.
"""

import ast
from collections.abc import Mapping

from support.tidy_tree import ROOT, nodes, python_files

SERVERS = ROOT / "broker"
FILES_MAX = 4


def imports() -> dict[str, set[str]]:
    """The modules of the servers that each module of the servers names."""
    paths = [path for path in python_files() if path.is_relative_to(SERVERS)]
    dotted = {".".join(path.relative_to(SERVERS).with_suffix("").parts): path for path in paths}
    modules = {name.removesuffix(".__init__"): path for name, path in dotted.items()}
    return {
        name: {
            origin
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            for origin in (f"{node.module}.{alias.name}", node.module)
            if origin in modules
        }
        for name, path in modules.items()
    }


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules that can reach each other, without those of one module."""

    def reached(start: str) -> set[str]:
        found, waiting = set[str](), [start]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    reach = {name: reached(name) for name in graph}
    found = {frozenset(n for n in reach[name] if name in reach[n]) for name in graph}
    return {circle for circle in found if len(circle) > 1}


def test_no_circle_of_the_servers_has_more_than_four_files() -> None:
    large = [sorted(c) for c in circles(imports()) if len(c) > FILES_MAX]
    assert large == []


def test_a_circle_is_found_and_a_chain_is_none() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set[str]()}
    assert circles(graph) == {frozenset("abc")}
