"""House rules on size and layout: a file fits a sitting, a function a screen."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.tidy_tree import ROOT, SOURCE_ROOTS, name_of, python_files, syntax

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50

# Longer than a rule allows, each for a reason that a reader would accept.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(name, lines without its docstring) of every function, methods as `Class.method`."""

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
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_a_file_fits_a_sitting() -> None:
    lengths = {name_of(p): len(p.read_text("utf-8").splitlines()) for p in python_files()}
    long = {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX}
    assert set(long) == set(LONG_FILES), f"files above {FILE_LINES_MAX} lines: {long}"


def test_a_function_fits_a_screen() -> None:
    lengths = {name: lines for path in python_files() for name, lines in functions(path)}
    long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    assert set(long) == set(LONG_FUNCTIONS), f"functions above {FUNCTION_LINES_MAX} lines: {long}"


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
        if path.read_text("utf-8").strip() and ast.get_docstring(syntax(path)) is None
    ]
    assert silent == []
