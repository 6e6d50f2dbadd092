"""The files of a table as Arrow reads them by itself.

The file system that delta-rs gives to pyarrow is made of Python objects. Arrow's threads still hold
them when a scan has failed at a damaged file, and a process that ends meanwhile dies by a signal or
hangs.
"""

from __future__ import annotations

import os
from typing import Any

from pyarrow import fs  # type: ignore[import-untyped]


def files_under(path: str) -> Any:
    """The file system in which paths begin at the folder `path`."""
    return fs.SubTreeFileSystem(os.path.abspath(path), fs.LocalFileSystem())
