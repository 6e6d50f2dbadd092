"""The files of the project, as the house rules see them: no caches, no generated code."""

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = (
    *("proto", "runtime", "broker", "client", "spark_jobs", "cli", "chaos", "console", "proof"),
    "bench",
)
CODE_FOLDERS = (*SOURCE_ROOTS, "examples", "tests", "tools")
GENERATED = "_pb2"
TEXT_SUFFIXES = {
    *(".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".txt", ".sh", ".proto", ".cfg", ".json"),
    *(".ini", ".in", ""),
}
_SKIPPED = {"__pycache__", "golden", "node_modules"}


@cache
def python_files() -> list[Path]:
    """Every Python file that people write, in a stable order."""
    return [
        path
        for folder in CODE_FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if GENERATED not in path.name and "__pycache__" not in path.parts
    ]


@cache
def text_files() -> list[Path]:
    """Every text file of the project, golden data aside."""
    top = [path for path in ROOT.iterdir() if path.is_file()]
    folders = [*CODE_FOLDERS, "deploy", "docs", "requirements", ".ci"]
    deep = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in [*top, *deep]
        if path.suffix in TEXT_SUFFIXES
        and path.name != ".git"
        and _SKIPPED.isdisjoint(path.relative_to(ROOT).parts)
    )


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def syntax(path: Path) -> ast.Module:
    """It stays to the end, a million nodes with the others: no collection of garbage walks them."""
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"), filename=str(path))
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of the file's syntax: several rules look at each."""
    gc.disable()
    try:
        return list(ast.walk(syntax(path)))
    finally:
        gc.freeze()
        gc.enable()
