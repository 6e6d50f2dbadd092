"""A peer that comes back at another address under the same name is followed within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline_local.cluster_files import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).parents[1] / "support" / "moved_names.py"
APART = ("unshare", "--mount", "--propagation", "private")
FOLLOWED_S = 3.0
DEADLINE_S = 180
RESOLVERS = ("native", "ares")
GAPS = ((2, False), (17, True))
"""Seconds without a peer, and whether its name has no address meanwhile."""
Running = dict[tuple[int, bool, str], "subprocess.Popen[str]"]


def may_be_apart() -> bool:
    return subprocess.run([*APART, "true"], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Every case, begun at once: each waits most of its time."""
    cases = [(*gap, resolver) for gap in GAPS for resolver in RESOLVERS]
    processes = {
        case: begun(tmp_path_factory.mktemp("moved") / "hosts", port, *case)
        for case, port in zip(cases, free_ports(len(cases)), strict=True)
    }
    yield processes
    for process in processes.values():
        process.kill()
        process.communicate()


def begun(
    hosts: Path, port: int, gap_s: int, nameless: bool, resolver: str
) -> subprocess.Popen[str]:
    hosts.write_text("127.0.0.1 localhost\n")
    words = [str(gap_s), str(int(nameless)), str(hosts), str(port)]
    return subprocess.Popen(
        [*APART, sys.executable, str(SCRIPT), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"GRPC_DNS_RESOLVER": resolver, "PYTHONPATH": str(SCRIPT.parents[1])},
    )


@pytest.mark.skipif(not may_be_apart(), reason="needs a mount namespace, for its own /etc/hosts")
@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize(("gap_s", "nameless"), GAPS)
def test_every_kind_of_channel_follows_the_name(
    running: Running, resolver: str, gap_s: int, nameless: bool
) -> None:
    """gRPC alone keeps to an address for 30 s, and looks up a missing name ever more rarely."""
    done = running[gap_s, nameless, resolver]
    out, err = done.communicate(timeout=DEADLINE_S)
    assert done.returncode == 0, err
    took = json.loads(out)
    assert set(took) == {"bare", "client", "to the controller", "follower"}
    if nameless:
        del took["bare"]  # gRPC's own pauses
    assert {kind: s for kind, s in took.items() if s > FOLLOWED_S} == {}
