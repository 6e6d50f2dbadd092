"""The pinned versions, and the folder where what they name is kept between runs."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
TESTS = HERE.parent


@cache
def versions() -> dict[str, Any]:
    return tomllib.loads((HERE / "versions.toml").read_text("utf-8"))


def kept(*names: str) -> Path:
    """A folder below the user's cache folder; made if it is not there."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache_home) if cache_home else Path.home() / ".cache"
    folder = base.joinpath("strandline-conformance", *names)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
