"""A mutant's sources: a copy of the packages it changes, in a directory of its own; and what it
needs of the checkout.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_proof.mutants.mutant import Mutant


class DoesNotApply(Exception):
    """The patch of a mutant is not for these sources; the message names the mutant and the file."""


def source_root(package: str) -> Path:
    """The directory in which the imported package lies."""
    found = import_module(package).__file__
    assert found is not None, package
    return Path(found).parent.parent


def corpus_text(name: str) -> str:
    """A plan of tests/sim/corpus in the checkout that this package lies in."""
    checkout = source_root("strandline_proof").parent
    return (checkout / "tests" / "sim" / "corpus" / f"{name}.json").read_text("utf-8")


def patched(mutant: Mutant) -> dict[str, str]:
    """The changed files and their new text. DoesNotApply if a text to replace is not there once."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        path = source_root(_package(edit.file)) / edit.file
        if edit.file not in texts:
            if not path.is_file():
                raise DoesNotApply(f"mutant {mutant.name}: there is no file {edit.file}")
            texts[edit.file] = path.read_text("utf-8")
        times = texts[edit.file].count(edit.old)
        if times != 1:
            raise DoesNotApply(
                f"mutant {mutant.name}: in {edit.file} the text to replace stands {times} times"
                f" instead of once: {edit.old.strip().splitlines()[0]!r} ..."
            )
        texts[edit.file] = texts[edit.file].replace(edit.old, edit.new)
    return texts


def plant(mutant: Mutant, into: Path) -> None:
    """Copy the packages that the mutant changes to `into`, with its changes."""
    texts = patched(mutant)
    for package in dict.fromkeys(map(_package, texts)):
        # With the bytecode of what stays: to compile a package takes longer than a run.
        shutil.copytree(source_root(package) / package, into / package)
    for file, text in texts.items():
        path = into / file
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(text, "utf-8")


def search_path(first: Path) -> str:
    """PYTHONPATH under which modules are looked for in `first`, then where this process does."""
    return os.pathsep.join([str(first), *(entry for entry in sys.path if entry)])


def _package(file: str) -> str:
    return file.partition("/")[0]
