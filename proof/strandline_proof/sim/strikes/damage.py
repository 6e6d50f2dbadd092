"""Strikes that change the content of a disk: bits, tails, all of it.

A bit of a log flips only in flushed batches, as an unreadable batch above the recovery point looks
like a torn tail. It flips only if another member of the ISR that stays has flushed the same batch,
and in one replica of a partition at a time. So no record may be lost, and damage must be noticed
before any client reads it. `helix` alone breaks that rule, on purpose.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import METADATA_SNAPSHOT as NAME
from strandline_broker.storage.files.sealed_file import SUFFIX as SEAL
from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.disk.parts import Directory
from strandline_proof.sim.kinds.disks import FILES, LIVE, PASSING
from strandline_proof.sim.oracles.controller.decisions import METADATA
from strandline_proof.sim.oracles.process.disks import Reader, has_torn_tail
from strandline_proof.sim.oracles.replica.log_view import LogView
from strandline_proof.sim.strikes.copies import another_is_sound, flushed, flushed_elsewhere
from strandline_proof.sim.topology.topology import CONTROLLER, broker_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.strikes.scene import Scene

DOWN_S: Final = 0.2
ENDS_S: Final = 10.0
"""Time that a process may take to end in order, before the strike gives up."""
LOOKS_S: Final = 0.05
REPAIR_S: Final = 2.5
RESTART_S: Final = 0.1
BOUNDS: Final = frozenset({"limit", "recovery-point"})
"""Files that limit the durable part of a log."""
NOTES: Final = frozenset({"identity", "state"})
"""Two notes of a replica's identity: one of them is left intact, as of a file and its seal."""


class DamageStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._flipped: dict[tuple[str, int], dict[str, str]] = {}
        """Flipped files, without their seals' endings, and their kinds, by machine and outage."""
        self.strikes: dict[str, Callable[..., object]] = {
            "bit-flip": self._bit_flip,
            "file-flip": self._file_flip,
            "offsets-flip": self._offsets_flip,
            "helix": self._helix,
            "store-flip": self._store_flip,
            "snapshot-flip": self._snapshot_flip,
            "zero-tail": self._zero_tail,
            "wipe": self._wipe,
        }

    def _bit_flip(self, node: str, file: str, bits: int, restart_s: float) -> bool:
        struck = self._scene.node(node)
        if not struck.running or node == CONTROLLER:
            return False
        if file == "log":
            return self._flip_log(struck, bits, restart_s, self._main_keys())
        if file not in LIVE:
            return self._file_flip(node, file, bits, stops=False, down_s=max(restart_s, DOWN_S))
        # The loss of power makes everything written here durable.
        found = [f for f in self._named(struck, file) if restart_s > 0 or not f[1].dirty]
        if not found:
            return False
        if restart_s > 0:
            self._scene.darken([struck], restart_s, survival=1.0)
        self._flip_one(struck, file, bits, found)
        return True

    def _file_flip(self, node: str, file: str, bits: int, stops: bool, down_s: float) -> bool:
        """Flips bits of a file while its process is down; `stops`: the process ended in order, so
        that a start trusts its files.
        """
        scene, struck = self._scene, self._scene.node(node)
        if not struck.running or file == "log":
            return False
        if scene.oracles.old_store or (node == CONTROLLER and scene.oracles.damaged_stores):
            return False
        if file == "marker" or (stops and file not in PASSING):
            struck.stop()
            self._flip_once_down(struck, file, bits, down_s, ENDS_S)
            return False
        if file in PASSING:
            if file == "damaged-ranges":
                self._flip_log(struck, bits, 0.0, self._main_keys())
            self._flip_once_there(file, bits, down_s)
            return False
        if not self._named(struck, file):
            return False
        self._flip_in_the_dark(struck, file, bits, down_s)
        return True

    def _flip_in_the_dark(self, struck: Node, file: str, bits: int, down_s: float) -> None:
        self._scene.darken([struck], down_s, survival=1.0)
        found = self._named(struck, file)
        if found:
            self._flip_one(struck, file, bits, found)

    def _flip_once_there(self, file: str, bits: int, down_s: float) -> None:
        """Flips bits of a file that comes and goes, on the first machine that has it."""
        scene = self._scene
        if scene.over or scene.oracles.old_store:
            return
        for each in scene.world.brokers:
            if each.running and self._named(each, file):
                self._flip_in_the_dark(each, file, bits, down_s)
                scene.struck["file-flip"] += 1
                return
        scene.later(LOOKS_S, self._flip_once_there, file, bits, down_s)

    def _flip_once_down(
        self, struck: Node, file: str, bits: int, down_s: float, patience_s: float
    ) -> None:
        scene = self._scene
        if struck.running and patience_s > 0:
            again = self._flip_once_down
            scene.later(LOOKS_S, again, struck, file, bits, down_s, patience_s - LOOKS_S)
            return
        if struck.running:
            return
        found = [each for each in self._named(struck, file) if not each[1].dirty]
        if found and not scene.over and not scene.oracles.old_store:
            self._flip_one(struck, file, bits, found)
            scene.struck["file-flip"] += 1
        scene.later(down_s, scene.start, struck)

    def _named(self, struck: Node, file: str) -> list[tuple[str, Inode]]:
        """Files of that kind on its disk that are not empty and that this outage leaves trusted.
        Files that limit the durable part do not qualify if a torn tail lies above, as it would look
        like changed bytes without them (I-7).
        """
        flipped = self._flipped.get((struck.name, struck.incarnation), {})
        if file in NOTES and not NOTES.isdisjoint(flipped.values()):
            return []
        found = [
            (path, inode)
            for path, inode in self._files(struck)
            if inode.data
            and fnmatchcase(path.rpartition("/")[2], FILES[file])
            and path.removesuffix(SEAL) not in flipped
        ]
        if file in BOUNDS and found and has_torn_tail(struck.disk):
            return []
        return found

    def _flip_one(self, struck: Node, file: str, bits: int, found: list[tuple[str, Inode]]) -> None:
        oracles, rng = self._scene.oracles, self._scene.rng
        path, inode = rng.choice(found)
        flipped = self._flipped.setdefault((struck.name, struck.incarnation), {})
        flipped[path.removesuffix(SEAL)] = file
        for _ in range(bits):
            inode.flip(rng.randrange(len(inode.data)), 1 << rng.randrange(8))
        if file == "log-start" and struck.name != CONTROLLER:
            self._forget_log_starts(struck)
        if file in BOUNDS:
            struck.disk.keeps_all.append(partial(_names, struck, path.rpartition("/")[0], inode))
        if file in ("meta", "state"):
            self._put_back(struck, inode, is_read_anyway=file == "state")
        oracles.sometimes[f"bit flipped: {file}"] += 1

    def _put_back(self, struck: Node, inode: Inode, *, is_read_anyway: bool) -> None:
        """Puts an identity file back from a copy, as no process guesses whose directory it is.
        Until then no store is restored from it; a start that goes on without the file writes
        another.
        """
        oracles = self._scene.oracles
        oracles.damaged_identities.append(struck.name)

        def repair() -> None:
            if not is_read_anyway:
                inode.restore()
            oracles.damaged_identities.remove(struck.name)
            self._scene.start(struck)

        self._scene.later(REPAIR_S, repair)

    def _forget_log_starts(self, struck: Node) -> None:
        """Lets its logs begin with their first segments until a leader reports a log start (ADR
        10).
        """
        replicas = self._scene.oracles.replicas
        for key in self._scene.oracles.control.partitions:
            replicas.log_starts.forget(struck.name, key)
            replicas.ghost(key).deleted.pop(struck.name, None)

    def _offsets_flip(self, node: str, bits: int, restart_s: float) -> bool:
        struck, control = self._scene.node(node), self._scene.oracles.control
        if not struck.running:
            return False
        keys = [key for key in control.partitions if control.is_offsets(key)]
        return self._flip_log(struck, bits, restart_s, keys, "offsets log")

    def _main_keys(self) -> list[Key]:
        return self._scene.oracles.control.main_keys()

    def _flip_log(
        self, struck: Node, bits: int, restart_s: float, keys: Iterable[Key], what: str = "log"
    ) -> bool:
        live, cut = restart_s == 0, False
        for key in keys:
            view = self._scene.oracles.replicas.find_view(struck.name, key)
            if view is None or not another_is_sound(self._scene, struck, key):
                continue
            if not self._able(struck, key, view, live=live, alone=False):
                continue
            if not live:
                self._scene.darken([struck], restart_s, survival=1.0)
                cut = True
            if self._flip_in(struck, key, bits, live=live, number=None, what=what):
                return True
        return cut

    def _flip_in(
        self,
        struck: Node,
        key: Key,
        bits: int,
        *,
        live: bool,
        number: int | None,
        what: str = "log",
    ) -> bool:
        """Flips bits of one batch; `live`: of a sealed segment, as a process has its newest bytes
        in memory.
        """
        oracles, rng = self._scene.oracles, self._scene.rng
        view = oracles.replicas.find_view(struck.name, key)
        if view is None:
            return False
        able = self._able(struck, key, view, live=live, alone=number is not None)
        if number is not None:
            able = [n for n in able if n % 3 == number]
        if not able:
            return False
        chosen = rng.choice(able)
        segment, start, stop = view.place(chosen)
        inode = struck.disk.find(f"{view.path}/{segment:020d}.log")
        assert isinstance(inode, Inode)
        if inode.dirty:
            return False
        for _ in range(bits):
            inode.flip(rng.randrange(start, stop), 1 << rng.randrange(8))
        if not inode.flips:
            return False
        oracles.replicas.ghost(key).on_damaged(struck.name, view.entries[chosen])
        oracles.sometimes[f"bit flipped: {what}"] += 1
        return True

    def _able(self, struck: Node, key: Key, view: LogView, *, live: bool, alone: bool) -> list[int]:
        """Numbers of the entries that may be struck; `alone`: entries that other replicas
        have too.
        """
        kept = None if alone else flushed_elsewhere(self._scene, struck, key)
        last = view.place(len(view.entries) - 1)[0] if view.entries else 0
        return [
            n
            for n in flushed(struck, view)
            if not (live and view.place(n)[0] == last)
            and (kept is None or view.entries[n].identity in kept)
        ]

    def _helix(self, partition: int) -> bool:
        """Each replica loses another third of the log: only all replicas together have a whole
        copy.

        The partition may never be whole again, but no client may read a wrong record.
        """
        oracles = self._scene.oracles
        struck = 0
        for key in oracles.control.main_keys():
            decided = oracles.control.partitions[key]
            if key[1] != partition or oracles.replicas.ghost(key).damaged:
                continue
            for number, member in enumerate(decided.replicas[:3]):
                node = self._scene.world.members[member]
                struck += self._flip_in(node, key, 1, live=True, number=number)
            if struck:
                oracles.replicas.ghost(key).give_up("every replica has lost a part of it")
        return struck > 0

    def _store_flip(self, back: int, repair_s: float) -> bool:
        """Flips a bit of a decision in the controller's log, not of the last, which could look
        torn. The controller must refuse the log, until a person has restored the file from a copy.
        """
        scene, struck = self._scene, self._scene.world.controller
        oracles = scene.oracles
        if not struck.running or oracles.old_store or struck.name in oracles.damaged_stores:
            return False
        view = LogView(struck.disk, METADATA)
        view.read_valid()
        number = len(view.entries) - 1 - back
        if number < 0:
            return False
        scene.darken([struck], RESTART_S, survival=1.0)
        segment, start, stop = view.place(number)
        inode = struck.disk.find(f"{METADATA}/{segment:020d}.log")
        assert isinstance(inode, Inode)
        if inode.dirty:
            return False
        position, mask = scene.rng.randrange(start, stop), 1 << scene.rng.randrange(8)
        inode.flip(position, mask)
        scene.oracles.damaged_stores.add(struck.name)

        def repair() -> None:
            inode.restore()
            scene.oracles.damaged_stores.discard(struck.name)
            struck.start()

        scene.later(repair_s, repair)
        return True

    def _snapshot_flip(self, back: int, restart_s: float) -> bool:
        """Flips a bit of one of the controller's two newest snapshots. The next start begins from
        the other one, and reaches the very same state (P-84).
        """
        scene, struck = self._scene, self._scene.world.controller
        oracles = scene.oracles
        if not struck.running or oracles.old_store or struck.name in oracles.damaged_stores:
            return False
        found = self._snapshots(struck)
        if back >= len(found) or any(inode.flips for inode in found):
            return False
        if len(found) == 1 and not Reader(struck.disk).exists(f"{METADATA}/{0:020d}.log"):
            return False
        scene.darken([struck], restart_s, survival=1.0)
        found = self._snapshots(struck)  # as on the platter
        if back >= len(found) or found[-1 - back].dirty:
            return False
        inode = found[-1 - back]
        inode.flip(scene.rng.randrange(len(inode.data)), 1 << scene.rng.randrange(8))
        oracles.sometimes["bit flipped: controller's snapshot"] += 1
        return True

    def _snapshots(self, struck: Node) -> list[Inode]:
        """The controller's snapshots, oldest first; none before the first is taken."""
        fs = Reader(struck.disk)
        names = fs.listdir(METADATA) if fs.isdir(METADATA) else []
        found = (struck.disk.find(f"{METADATA}/{n}") for n in sorted(names) if NAME.fullmatch(n))
        return [inode for inode in found if isinstance(inode, Inode)]

    def _zero_tail(self, node: str, bytes: int, restart_s: float) -> bool:
        """Makes the newest files larger than what was written to them when the power goes."""
        struck = self._scene.node(node)
        if not struck.running:
            return False
        self._scene.darken([struck], restart_s, survival=0.9)
        newest: dict[str, Inode] = {}
        for path, inode in sorted(self._files(struck), key=lambda found: found[0]):
            if path.endswith((".log", ".index", ".timeindex")):
                above, _, name = path.rpartition("/")
                newest[f"{above} {name.rpartition('.')[2]}"] = inode
        for inode in newest.values():
            inode.grow(bytes)
        return True

    def _wipe(self, node: str, restart_s: float) -> bool:
        """Replaces the machine: the same broker id, an empty disk."""
        struck = self._scene.node(node)
        if not struck.running or node == CONTROLLER:
            return False
        if not all(self._others_have(struck, key) for key in self._hosted(struck)):
            return False
        struck.power_off(1.0)
        struck.disk.wipe()
        self._scene.oracles.on_power_lost([struck], wiped=True)
        self._scene.later(restart_s, self._scene.start, struck)
        return True

    def _hosted(self, struck: Node) -> Iterator[Key]:
        for key, decided in self._scene.oracles.control.partitions.items():
            if broker_id(struck.name) in decided.replicas:
                yield key

    def _others_have(self, struck: Node, key: Key) -> bool:
        oracles = self._scene.oracles
        decided = oracles.control.partitions[key]
        others = [m for m in decided.isr if m != broker_id(struck.name)]
        ghost = oracles.replicas.ghost(key)
        return len(others) >= 2 and not ghost.damaged and not ghost.lost_on

    def _files(self, struck: Node) -> Iterator[tuple[str, Inode]]:
        yield from _walk("", struck.disk.root)


def _names(struck: Node, path: str, inode: Inode) -> bool:
    """True if a changed file of `BOUNDS` is still in the directory at `path`, or would be after a
    loss of power. Without the file a loss of power looks like a change by the disk (I-7).
    """
    try:
        directory = struck.disk.find(path)
    except OSError:
        return False
    assert isinstance(directory, Directory)
    return any(each is inode for each in (*directory.entries.values(), *directory.durable.values()))


def _walk(path: str, directory: Directory) -> Iterator[tuple[str, Inode]]:
    for name, node in directory.entries.items():
        if isinstance(node, Directory):
            yield from _walk(f"{path}/{name}", node)
        else:
            yield f"{path}/{name}", node
