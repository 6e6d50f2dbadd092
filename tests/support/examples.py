"""How many examples a property is tried with, and how many moments of many."""

from __future__ import annotations

import os
from typing import Final

SHARE: Final = float(os.environ.get("TEST_EXAMPLES", "0.4"))
"""Hypothesis draws other examples in each run: what one run leaves out, a later one draws."""


def every(step: int) -> int:
    """Returns the distance between the moments at which this run breaks a work off."""
    return 1 if SHARE >= 1 else step


def examples(count: int) -> int:
    """Returns the share of `count` that this run tries, at least 4."""
    return max(4, round(count * SHARE))
