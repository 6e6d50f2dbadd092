"""The loading of aiokafka's compiled record codec, at its first use.

The parts of that package import each other in circles. A second thread that imports another part
meanwhile may find half a module, so one thread loads them all.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

_LOADING: Final = Lock()
_is_loaded = False


def load_record_codec() -> None:
    """Imports the codec, unless a thread has done so. Call it before each import of a part."""
    global _is_loaded
    if _is_loaded:
        return
    with _LOADING:
        import aiokafka.codec
        import aiokafka.errors
        import aiokafka.record._crecords  # noqa: F401

        _is_loaded = True
