"""Keeps what libraries hold out of the garbage collections of PySpark's processes.

PySpark collects garbage after each task, and after each use of a process that plans, and walks all
objects of pyarrow and gRPC for it, 65,000 of them. None of them is ever garbage.
"""

import functools
import gc


@functools.cache
def spare_libraries() -> None:
    """For the end of a process's first task, when all has been imported; later calls do nothing."""
    gc.collect()
    gc.freeze()
