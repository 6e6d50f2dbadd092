"""Pipelines that ship: files to run as they are, or to begin one's own with."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

NAMES: Final = ("access", "flights")


def text_of(name: str) -> str:
    """The file of the pipeline, one of NAMES."""
    return files(__package__).joinpath(f"{name}.toml").read_text("utf-8")
