"""What a test complains of is found wherever a task group has put it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from strandline_proof.mutants import complaints

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "def test_it():\n    assert 1 + 1 == 3\n"
IN_GROUPS = """
def test_it():
    try:
        assert 1 + 1 == 3
    except AssertionError as error:
        raise ExceptionGroup("tasks", [ExceptionGroup("more tasks", [error])])
"""
NOT_RAISED = """
import pytest

def test_it():
    with pytest.raises(ValueError):
        pass
"""
CRASHES = "def test_it():\n    [][0]\n"
SOUND = "def test_it():\n    print('complaint: none')\n"


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (PLAIN, "AssertionError: assert (1 + 1) == 3"),
        (IN_GROUPS, "AssertionError: assert (1 + 1) == 3"),
        (NOT_RAISED, "Failed: DID NOT RAISE"),
        (CRASHES, "IndexError: list index out of range"),
        (SOUND, ""),
    ],
)
def test_complaints(text: str, begins: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    found = play(tmp_path)
    assert found.startswith(begins)
    assert bool(found) == bool(begins)


def play(folder: Path) -> str:
    return complaints.found_in(
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", complaints.__name__, "--no-header", "."],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    )
