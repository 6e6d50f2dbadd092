"""Example pipelines: files to run unchanged, or to start your own from."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

NAMES: Final = (
    "access",
    "clickstream",
    "cloudevents",
    "debezium",
    "exports",
    "flights",
    "syslog",
)


def text_of(name: str) -> str:
    """Returns the file of the pipeline, one of NAMES."""
    return files(__package__).joinpath(f"{name}.toml").read_text("utf-8")
