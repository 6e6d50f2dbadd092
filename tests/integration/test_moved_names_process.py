"""A peer that comes back at another address under the same name is followed within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "moved_names.py"
APART = ("unshare", "--mount", "--propagation", "private")
FOLLOWED_S = 3.0
DEADLINE_S = 180


def may_be_apart() -> bool:
    return subprocess.run([*APART, "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not may_be_apart(), reason="needs a mount namespace, for its own /etc/hosts")
@pytest.mark.parametrize("resolver", ["native", "ares"])
@pytest.mark.parametrize(("gap_s", "nameless"), [(2, False), (17, True)])
def test_every_kind_of_channel_follows_the_name(
    tmp_path: Path, resolver: str, gap_s: int, nameless: bool
) -> None:
    """gRPC alone keeps to an address for 30 s, and looks up a missing name ever more rarely."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    environment = os.environ | {
        "GRPC_DNS_RESOLVER": resolver,
        "PYTHONPATH": str(SCRIPT.parents[1]),
    }
    done = subprocess.run(
        [*APART, sys.executable, str(SCRIPT), str(gap_s), str(int(nameless)), str(hosts)],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    took = json.loads(done.stdout)
    assert set(took) == {"bare", "client", "to the controller", "follower"}
    if nameless:
        del took["bare"]  # gRPC's own pauses
    assert {kind: s for kind, s in took.items() if s > FOLLOWED_S} == {}
