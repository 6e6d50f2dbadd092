"""A network of a run's own: each server in a network namespace, joined by a bridge, so that links
can be cut and delayed without a trace on the machine.

The command itself moves into fresh network and mount namespaces first (`enter_own_namespaces`).
Everything below belongs to these: when the last process ends, the kernel removes it all.

A cut link is one on which packets are sent to an Ethernet address that no interface has: they
vanish without an answer. A delayed server's link leads through a process that holds each packet
back.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError, ClusterError
from strandline_cli.nemesis.disks import has_sys_admin
from strandline_local.tools import run_tool

INSIDE: Final = "STRANDLINE_CHAOS_NAMESPACES"
"""Environment variable of a command that has moved."""
HUB: Final = "hub"
_NAMESPACES: Final = Path("/run/netns")
_TOOLS: Final = ("ip", "unshare", "nsenter", "mount")
_NETWORK: Final = "10.203.0"
_HUB_NUMBER: Final = 254
_NOWHERE: Final = "02:00:00:00:00:ff"
_LAST_S: Final = 10.0


def cannot_separate() -> str | None:
    """The reason why servers cannot have networks of their own; None if they can."""
    if not has_sys_admin():
        return "only root can make network namespaces"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(missing)} here (Debian: iproute2, util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "ip", "link", "add", "tried", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LAST_S,
    )
    if tried.returncode != 0:
        return f"this kernel makes no namespace with a bridge: {tried.stderr.strip()}"
    return None


def cannot_delay() -> str | None:
    """The reason why packets cannot be held back; None if they can."""
    if why := cannot_separate():
        return why
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun here: no process can stand in a link and hold packets back"
    return None


def enter_own_namespaces(argv: Sequence[str]) -> None:
    """Start this command again in namespaces of its own, in the same process; returns there."""
    if os.environ.pop(INSIDE, None) is not None:  # or servers would take it for a setting
        return
    sys.stdout.flush()
    words = [sys.executable, "-c", "from strandline_cli.main import main; main()", *argv]
    unshare = ["unshare", "--net", "--mount", "--propagation", "private", "--", *words]
    os.execvpe(unshare[0], unshare, {**os.environ, INSIDE: "1"})


class Network:
    """The bridge, with the addresses of `names` and of the hub, where clients are."""

    def __init__(self, names: Iterable[str]) -> None:
        self.addresses = {
            **{name: f"{_NETWORK}.{number}" for number, name in enumerate(names, 1)},
            HUB: f"{_NETWORK}.{_HUB_NUMBER}",
        }
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._lines: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def servers(self) -> list[str]:
        return [name for name in self.addresses if name != HUB]

    def make(self) -> None:
        """Build it. The command must have moved into its own namespaces."""
        made = not _NAMESPACES.exists()
        _NAMESPACES.mkdir(parents=True, exist_ok=True)
        run_tool("mount", "-t", "tmpfs", "strandline", _NAMESPACES)
        self._made_folder = made
        _ip("link set lo up")
        _ip(f"link add {HUB} type bridge")
        _ip(f"addr add {self.addresses[HUB]}/24 dev {HUB}")
        _ip(f"link set {HUB} up")
        for name in self.servers:
            _ip(f"netns add {name}")
            _ip(f"link add {_link(name)} type veth peer name eth0 netns {name}")
            _ip(f"-n {name} addr add {self.addresses[name]}/24 dev eth0")
            _ip(f"-n {name} link set lo up")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"link set {_link(name)} master {HUB} up")

    def inside(self, name: str) -> list[str]:
        """The words before a command that is to run in that server's namespace."""
        return ["nsenter", f"--net={_NAMESPACES / name}", "--"]

    # Cut links.

    def cut(self, links: Iterable[tuple[str, str]]) -> None:
        """Packets from the first to the second of each pair vanish from now on."""
        for link in links:
            self._cuts[link] += 1
            if self._cuts[link] == 1:
                self._neighbour("replace", link, f"lladdr {_NOWHERE} nud permanent")

    def join(self, links: Iterable[tuple[str, str]]) -> None:
        """Take back `cut`."""
        for link in links:
            self._cuts[link] -= 1
            if self._cuts[link] == 0:
                self._neighbour("del", link, "")

    def _neighbour(self, what: str, link: tuple[str, str], more: str) -> None:
        sender, receiver = link
        where, device = ("", HUB) if sender == HUB else (f"-n {sender}", "eth0")
        _ip(f"{where} neigh {what} {self.addresses[receiver]} {more} dev {device}")

    # Delayed links.

    def delay(self, name: str, delay_ms: int) -> None:
        """Packets to and from the server arrive that much later from now on."""
        assert name not in self._lines
        near, far, side = f"n-{_link(name)}", f"f-{_link(name)}", f"s-{_link(name)}"
        words = [sys.executable, "-m", "strandline_cli.nemesis.delay_line"]
        line = subprocess.Popen(
            [*words, near, far, str(delay_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lines[name] = line
        assert line.stdout is not None
        if line.stdout.readline() == b"":
            raise CliError(f"no packet can be held back: the delay line of {name} has ended")
        _ip(f"link add {side} type bridge")
        _ip(f"link set {side} up")
        _ip(f"link set {near} master {side} up")
        _ip(f"link set {far} master {HUB} up")
        _ip(f"link set {_link(name)} master {side}")

    def hasten(self, name: str) -> None:
        """Take back `delay`."""
        line = self._lines.pop(name, None)
        if line is None:
            return
        with contextlib.suppress(ClusterError):
            _ip(f"link set {_link(name)} master {HUB}")
            _ip(f"link del s-{_link(name)}")
        _end(line)

    def close(self) -> None:
        """End the processes that hold packets back; the namespaces end with this command."""
        for name in list(self._lines):
            self.hasten(name)
        with contextlib.suppress(ClusterError, OSError):
            for name in self.servers:
                _ip(f"netns del {name}")
            run_tool("umount", _NAMESPACES)
            if self._made_folder:
                _NAMESPACES.rmdir()


def _end(line: subprocess.Popen[bytes]) -> None:
    assert line.stdin is not None
    line.stdin.close()
    try:
        line.wait(_LAST_S)
    except subprocess.TimeoutExpired:
        line.kill()
        line.wait()
    assert line.stdout is not None
    line.stdout.close()


def _link(name: str) -> str:
    """The hub's end of the server's cable; names of links have at most 15 letters."""
    return name.replace("broker-", "b").replace("controller", "c")


def _ip(words: str) -> None:
    run_tool("ip", *words.split())
