"""Full collections of garbage that leave out what has survived one."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, weakref
from strandline_runtime.survivors import freeze_survivors

FROZEN_MIN = 200_000

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return node

freeze_survivors(frozen_min=FROZEN_MIN, counted_every=1)
held = [[] for _ in range(50_000)]
lost = cycle()
seen = weakref.ref(lost)
gc.collect()
frozen = gc.get_freeze_count()
assert frozen >= 50_000, frozen
assert not any(isinstance(one, list) and one is held for one in gc.get_objects())

fresh = weakref.ref(cycle())
gc.collect()
assert fresh() is None, "a cycle that is not frozen is collected"

held = None
assert gc.get_freeze_count() < frozen - 49_000, "counts of references free what is frozen"

del lost
gc.collect()
assert seen() is not None, "a frozen cycle stays"

held = [[] for _ in range(FROZEN_MIN + 1)]
gc.collect()
gc.collect()
assert seen() is None, "it is collected when many are frozen"
assert gc.get_freeze_count() > FROZEN_MIN

lost = cycle()
seen = weakref.ref(lost)
gc.collect()
del lost
more = [[] for _ in range(FROZEN_MIN // 2)]
gc.collect()
gc.collect()
assert seen() is not None, "not before twice as many are"
more += [[] for _ in range(FROZEN_MIN)]
gc.collect()
gc.collect()
assert seen() is None
"""


def test_what_survives_a_full_collection_is_visited_again_only_when_twice_as_much_is_frozen() -> (
    None
):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
