"""A mutant's sources, copied to a directory of their own, and the files that it needs of the
checkout.
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
    """A mutant does not fit these sources; the message names the mutant and the module."""


def source_root(package: str) -> Path:
    """The directory that contains the imported package."""
    found = import_module(package).__file__
    assert found is not None, package
    return Path(found).parent.parent


def corpus_text(name: str) -> str:
    """The text of a plan in tests/sim/corpus of the checkout that contains this package."""
    checkout = source_root("strandline_proof").parent
    return (checkout / "tests" / "sim" / "corpus" / f"{name}.json").read_text("utf-8")


def source_of(module: str) -> Path:
    """The file of the module's source, whether or not it exists."""
    folder = source_root(module.partition(".")[0]).joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def patched(mutant: Mutant) -> dict[str, str]:
    """Returns each changed module with its new text; DoesNotApply unless each text stands once."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        if edit.module not in texts:
            path = source_of(edit.module)
            if not path.is_file():
                raise DoesNotApply(f"mutant {mutant.name}: there is no module {edit.module}")
            texts[edit.module] = path.read_text("utf-8")
        times = texts[edit.module].count(edit.old)
        if times != 1:
            raise DoesNotApply(
                f"mutant {mutant.name}: in {edit.module} the text to replace stands {times} times"
                f" instead of once: {edit.old.strip().splitlines()[0]!r} ..."
            )
        texts[edit.module] = texts[edit.module].replace(edit.old, edit.new)
    return texts


def plant(mutant: Mutant, into: Path) -> None:
    """Copies the packages that the mutant changes to `into`, with its changes."""
    texts = patched(mutant)
    for package in dict.fromkeys(module.partition(".")[0] for module in texts):
        # The bytecode of unchanged modules is copied too: compiling a package takes longer than a
        # run.
        shutil.copytree(source_root(package) / package, into / package)
    for module, text in texts.items():
        source = source_of(module)
        path = into / source.relative_to(source_root(module.partition(".")[0]))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(text, "utf-8")


def search_path(first: Path) -> str:
    """The PYTHONPATH that searches `first`, then this process's path."""
    return os.pathsep.join([str(first), *(entry for entry in sys.path if entry)])
