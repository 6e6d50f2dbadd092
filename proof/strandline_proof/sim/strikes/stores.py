"""Strikes at the controller's store: an old copy of it is put back, and the operator must run
`strandline controller restore` (P-76, I-92).

The copy is started first, for a moment, as by an operator who does not know better. The first
broker that it meets must make it end, and no broker may obey it. Then everything is stopped, and
the command's work is done on all data directories, under the locks of all of them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry

from strandline_broker.hosts.controller.restore import Restoration, RestoreRequest
from strandline_broker.storage.directory.meta_properties import FILE_NAME as META_PROPERTIES
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.loop.owner import EPOCH_S
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.strikes.doubles import settle
from strandline_proof.sim.topology.topology import CONTROLLER, broker_id
from strandline_runtime.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.disk.parts import Directory
    from strandline_proof.sim.strikes.scene import Scene

BEGINS_S: Final = 2.0
"""Earliest time of the copy: a topic without a replica on any disk would count as deleted."""
NEWER: Final = 10
"""Number of records by which the live brokers must be ahead of the copy. A copy that decides more
before it meets them cannot be recognized (docs/internals/adr/0006).
"""
UNDER_WAY_S: Final = 0.05
"""Longest delay of the previous controller's answers."""


@dataclass(frozen=True, slots=True)
class _Clock:
    scene: Scene

    def time(self) -> float:
        return EPOCH_S + self.scene.world.loop.now

    def monotonic(self) -> float:
        return self.scene.world.loop.now


class StoreStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._put_back_s = 0.0
        self.strikes: dict[str, Callable[..., object]] = {"store-restored": self._restored}

    def _restored(self, age_s: float, meets_s: float) -> bool:
        """Takes the copy; it has struck when the copy is put back."""
        scene, controller = self._scene, self._scene.world.controller
        if not controller.running or controller.process is None or not self._is_well():
            return False
        root = copy.deepcopy(controller.disk.root)
        settle(root)
        last = controller.process.state.last_offset
        scene.later(age_s, self._put_back, root, last, meets_s)
        return False

    def _is_well(self) -> bool:
        """True if no topic is being deleted, and every disk holds what was written to it."""
        scene = self._scene
        return (
            scene.world.loop.now >= BEGINS_S
            and scene.churn is None
            and scene.compaction is None
            and not scene.oracles.damaged_stores
            and not scene.oracles.damaged_identities
            and not scene.oracles.old_store
        )

    def _put_back(self, root: Directory, last: int, meets_s: float) -> None:
        scene, controller = self._scene, self._scene.world.controller
        alive = [node.process for node in scene.world.brokers if node.running]
        known = [getattr(process, "metadata", None) for process in alive]
        # The present brokers: the copy may decide together with one that has applied as little as
        # itself.
        seen = min((m.highest_offset for m in known if m is not None), default=-1)
        if scene.over or not self._is_well() or seen < last + NEWER:
            return
        scene.struck["store-restored"] += 1
        scene.world.timeline.add("*", "fault", "the store is an old copy", {"up to": last})
        controller.kill()
        controller.disk.put(root)
        scene.oracles.old_store = True
        controller.start()
        self._put_back_s = scene.world.loop.now
        scene.pending = self._restore
        scene.later(meets_s, self._restore)

    def _check_refused(self) -> None:
        """I-92: a controller gives no answer to a broker that has applied later records."""
        world = self._scene.world
        process = world.controller.process
        if process is None or not world.controller.running:
            return
        for node in world.brokers:
            lifecycle = getattr(node.process, "lifecycle", None)
            answered_s = None if lifecycle is None else lifecycle.last_answer_s
            if not node.running or node.owner is None or answered_s is None:
                continue
            if broker_id(node.name) not in process.controller.told:
                continue  # its last answer may be the previous controller's
            ahead = node.process.metadata.highest_offset > process.state.last_offset
            if ahead and node.owner.to_global(answered_s) > self._put_back_s + UNDER_WAY_S:
                violation = Violation(
                    "I-92",
                    f"{node.name} has applied record {node.process.metadata.highest_offset}, and is"
                    f" answered by a controller whose log ends at {process.state.last_offset}",
                )
                world.loop.fail(violation)

    def _restore(self) -> None:
        """Does what `strandline controller restore` does, with every existing data directory."""
        scene, world = self._scene, self._scene.world
        if scene.pending is None:
            return
        scene.pending = None
        self._check_refused()
        for end in list(scene.doubles.values()):
            end()
        nodes = [world.controller, *world.brokers]
        disk = SimDisk(scene.rng, _Clock(scene).time)
        for node in nodes:
            node.resume()
            node.kill()
            node.disk.commit_all()
            if "data" in node.disk.root.entries:
                disk.root.entries[node.name] = node.disk.root.entries["data"]
        runtime = Runtime(
            clock=_Clock(scene),
            fs=SimFs(disk),
            rng=scene.rng,
            network=cast("Any", None),
            serial_executor=cast("Any", None),
            exit=cast("Any", None),
            metrics=CollectorRegistry(auto_describe=False),
            log=cast("Any", None),
            pid=1,
        )
        request = RestoreRequest(
            controller_dir=f"/{CONTROLLER}",
            broker_dirs=tuple(
                f"/{n.name}"
                for n in world.brokers
                # A disk that was full from the first byte on has no identity yet.
                if runtime.fs.exists(f"/{n.name}/{META_PROPERTIES}")
            ),
            node_id=None,
            discard_store=False,
            recreate_missing=True,
        )
        with Restoration(runtime, request) as restoration:
            restoration.carry_out()
        disk.commit_all()
        for line in restoration.lines:
            world.timeline.add("*", "restore", line, {})
        scene.oracles.on_store_restored()
        for node in nodes:
            node.start()
