"""A local cluster whose processes can be cut off from the network, where the machine can.

Each process is in a group of users of its own. A rule of the packet filter drops every packet that
a socket of that group sends. A connection needs packets in both directions, so a process that is
cut off reaches no other process, and none reaches it. Connections stay open and become silent, as
behind a broken cable.
"""

import grp
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from strandline_local.errors import ClusterError
from strandline_local.local_cluster import LocalCluster, ProcessId
from strandline_local.ownership import Guard, continued

_GROUPS: Final = range(50_000, 59_000)
"""Ids of groups. They exist in a user namespace of 65,536 ids too."""
_TOOL_S: Final = 10.0
_CAP_SETGID: Final = 6
_CAP_NET_ADMIN: Final = 12


def cannot_cut_off() -> str | None:
    """The reason why no process can be cut off on this machine; None if one can."""
    if shutil.which("iptables") is None:
        return "there is no iptables here (Debian: iptables)"
    for capability, name in ((_CAP_SETGID, "CAP_SETGID"), (_CAP_NET_ADMIN, "CAP_NET_ADMIN")):
        if not _capabilities() >> capability & 1:
            return f"this program lacks {name}; run it as root, or in a container with it"
    return None


def _capabilities() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("\nCapEff:")[2].partition("\n")[0] or "0", 16)


class SeparableCluster(LocalCluster):
    """A local cluster with an owner, whose pauses and cuts end with the owner too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pauses: dict[ProcessId, Guard] = {}
        self._cuts: dict[ProcessId, Guard] = {}
        self.cannot_cut_off = cannot_cut_off()
        self._groups = {} if self.cannot_cut_off else _free_groups(self.process_ids)

    def _groups_of(self, name: str) -> Sequence[int] | None:
        group = self._groups.get(name)
        return None if group is None else [*os.getgroups(), group]

    # Pauses.

    def pause(self, process_id: ProcessId) -> None:
        """Send SIGSTOP. A guard continues the process if the owner ends, so that it ends too."""
        pid = self.process(process_id).pid
        if pid is not None and process_id not in self._pauses:
            self._pauses[process_id] = Guard(continued(pid))
        super().pause(process_id)

    def resume(self, process_id: ProcessId) -> None:
        """Send SIGCONT."""
        super().resume(process_id)
        self._dismiss(self._pauses, process_id)

    @property
    def paused(self) -> list[ProcessId]:
        """The processes that are stopped by `pause`."""
        return list(self._pauses)

    # Cuts.

    def cut_off(self, process_id: ProcessId) -> None:
        """Drop every packet that the process sends. Raises ClusterError where that cannot be."""
        if self.cannot_cut_off:
            raise ClusterError(
                f"{self._title(process_id)} cannot be cut off: {self.cannot_cut_off}"
            )
        name = self._name(process_id)
        if process_id in self._cuts:
            return
        guard = Guard(["iptables", *self._rule("-D", name)])
        try:
            _iptables(self._rule("-I", name))
        except BaseException:
            guard.dismiss()
            raise
        self._cuts[process_id] = guard

    def rejoin(self, process_id: ProcessId) -> None:
        """Take back `cut_off`."""
        if process_id in self._cuts:
            _iptables(self._rule("-D", self._name(process_id)))
            self._dismiss(self._cuts, process_id)

    def _rule(self, what: str, name: str) -> list[str]:
        group = str(self._groups[name])
        match = ["-m", "owner", "--gid-owner", group, "--suppl-groups"]
        return ["-w", "5", what, "OUTPUT", *match, "-j", "DROP"]

    @property
    def is_cut_off(self) -> list[ProcessId]:
        """The processes that `cut_off` separates."""
        return list(self._cuts)

    # The end.

    def _dismiss(self, guards: dict[ProcessId, Guard], process_id: ProcessId) -> None:
        if (guard := guards.pop(process_id, None)) is not None:
            guard.dismiss()

    def kill(self, process_id: ProcessId) -> None:
        super().kill(process_id)
        self._dismiss(self._pauses, process_id)

    def stop(self, process_id: ProcessId, **options: Any) -> None:
        super().stop(process_id, **options)
        self._dismiss(self._pauses, process_id)

    def close(self) -> None:
        """Take back all faults and kill every process."""
        for process_id in self.is_cut_off:
            self.rejoin(process_id)
        self.kill_all()
        for process_id in self.paused:
            self._dismiss(self._pauses, process_id)


def _free_groups(process_ids: Sequence[ProcessId]) -> dict[str, int]:
    """One group of users for each process, by the name of the process."""
    found = []
    for group in random.SystemRandom().sample(_GROUPS, len(_GROUPS)):
        try:
            grp.getgrgid(group)
        except KeyError:
            found.append(group)
        if len(found) == len(process_ids):
            break
    names = [i if isinstance(i, str) else f"broker-{i}" for i in process_ids]
    return dict(zip(names, found, strict=True))


def _iptables(words: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            ["iptables", *words], capture_output=True, text=True, check=False, timeout=_TOOL_S
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"iptables did not end within {_TOOL_S:.0f} s") from None
    if done.returncode != 0:
        why = " ".join(done.stderr.split())
        raise ClusterError(f"`iptables {' '.join(words)}` failed: {why}")
