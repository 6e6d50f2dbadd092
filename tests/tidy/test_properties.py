"""No property is timed: a machine that does other things would fail it."""

from __future__ import annotations

import ast

from hypothesis import HealthCheck, settings

from support.tidy_tree import name_of, nodes, python_files


def test_the_profile_sets_no_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_the_profile_is_the_one_place_that_sets_it() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files()
        if "deadline" in path.read_text("utf-8")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("settings", "hypothesis.settings")
        if any(word.arg == "deadline" for word in node.keywords)
    ]
    assert found == [], "leave the deadline to the profile in tests/conftest.py"
