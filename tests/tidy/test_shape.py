"""House rules on size and layout: a file fits a sitting, a function a screen."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.tidy_tree import ROOT, SOURCE_ROOTS, name_of, python_files, syntax

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 650
"""A test file is a list that is read by its names; splitting one hides what is missing from it."""
FUNCTION_LINES_MAX = 50

# Longer than a rule allows, each for a reason that a reader would accept.
LONG_FILES: dict[str, str] = {
    "broker/strandline_broker/storage/log/log.py": (
        "what changes a log's segments, tail, start and end stands in the one file that owns them"
    ),
    "broker/strandline_broker/core/controller/log/state.py": (
        "the fold of the controller's log: state is changed in the one file that owns it"
    ),
    "proto/strandline_proto/errors.py": "one table: a class for each error code, and nothing else",
    "client/strandline/errors.py": "one table: the broker's errors are made from the one above",
}
LONG_FUNCTIONS: dict[str, str] = {}
FOLDER_MODULES_MAX = 20
FULL_FOLDERS: dict[str, str] = {
    "tests/integration": "a list of histories with real processes, each found by its name",
    "tests/property": "one file for each machine, each found by the machine's name",
    "tests/support": "imported by name; each module is one rig or one reference",
}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(name, lines of the body) of every function, methods as `Class.method`."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name_of(path)}:{prefix}{child.name}", lines_of(child)
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    return walk(syntax(path), "")


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, without its docstring: a signature may list many options."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    assert function.end_lineno is not None
    return function.end_lineno - body[0].lineno + 1


def test_a_file_fits_a_sitting() -> None:
    long = {}
    for path in python_files():
        lines = len(path.read_text("utf-8").splitlines())
        allowed = TEST_FILE_LINES_MAX if path.name.startswith("test_") else FILE_LINES_MAX
        if lines > allowed:
            long[name_of(path)] = lines
    assert set(long) <= set(LONG_FILES), f"too long: {long}"


def test_a_function_fits_a_screen() -> None:
    lengths = {name: lines for path in python_files() for name, lines in functions(path)}
    long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    assert set(long) == set(LONG_FUNCTIONS), f"functions above {FUNCTION_LINES_MAX} lines: {long}"


def test_a_folder_is_seen_at_a_glance() -> None:
    """`__init__.py` and generated code do not count."""
    found = Counter(name_of(path.parent) for path in python_files() if path.name != "__init__.py")
    full = {folder: count for folder, count in found.items() if count > FOLDER_MODULES_MAX}
    assert set(full) == set(FULL_FOLDERS), f"folders of more than {FOLDER_MODULES_MAX}: {full}"


def test_no_source_root_is_itself_a_package() -> None:
    assert [root for root in SOURCE_ROOTS if (ROOT / root / "__init__.py").exists()] == []


def test_every_package_of_a_source_root_is_typed() -> None:
    packages = [
        folder
        for root in SOURCE_ROOTS
        for folder in (ROOT / root).iterdir()
        if (folder / "__init__.py").is_file()
    ]
    assert [name_of(p) for p in packages if not (p / "py.typed").is_file()] == []


def test_every_module_opens_with_its_purpose() -> None:
    silent = [
        name_of(path)
        for path in python_files()
        if len(syntax(path).body) > 1 and ast.get_docstring(syntax(path)) is None
    ]
    assert silent == []
