"""A freeze that keeps the objects of libraries out of the garbage collections of PySpark's
processes.

PySpark collects garbage after each task, and after each use of a process that plans. Each time it
walks all 65,000 objects of pyarrow and gRPC, none of which is ever garbage.
"""

import functools
import gc


@functools.cache
def spare_libraries() -> None:
    """Freezes all objects at the end of a process's first task, when all modules are imported.
    Later calls do nothing.
    """
    gc.collect()
    gc.freeze()
