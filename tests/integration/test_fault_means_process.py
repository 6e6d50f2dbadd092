"""The means of the console's faults on real processes: one that is slow, and one that is cut off.

They take root. What the machine lacks is named where the test is skipped.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from strandline_cli.nemesis.cut_off import cannot_cut_off
from strandline_cli.nemesis.disks import has_sys_admin
from strandline_cli.nemesis.network import cannot_separate
from strandline_cli.nemesis.throttle import (
    WRITES_PER_S,
    SlowProcess,
    cannot_throttle,
    find_controller,
)

pytestmark = pytest.mark.integration

PROGRAM = """
import os, socket, subprocess, sys
from strandline_cli.nemesis.cut_off import CutOff

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
child = os.fork()
if child == 0:
    while True:
        got, _ = server.accept()
        got.sendall(b"hello")
        got.close()


def answer(patience_s):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as client:
            return client.recv(5)
    except TimeoutError:
        return b"nothing"


print(answer(60))
cut = CutOff("strandline-test-" + str(os.getpid()), child, [port])
cut.begin()
print(answer(0.5))
cut.end()
print(answer(60))
rules = subprocess.run(["iptables", "-S"], capture_output=True, text=True, check=True).stdout
print([line for line in rules.splitlines() if "DROP" in line])
os.kill(child, 9)
"""
"""It has a network of its own, so that no rule of this machine changes."""


def test_a_process_without_a_network_answers_again_when_it_is_joined() -> None:
    why = cannot_separate() or (cannot_cut_off() if has_sys_admin() else "it takes root")
    if why is not None:
        pytest.skip(f"NOT TESTED: {why}")
    said = subprocess.run(
        ["unshare", "--net", "--", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines() == ["b'hello'", "b'nothing'", "b'hello'", "[]"]


def test_a_slow_process_has_its_limit_while_the_fault_lasts() -> None:
    here = Path(__file__).parent  # temporary directories may be in memory
    why = cannot_throttle(here)
    if why is not None:
        pytest.skip(f"NOT TESTED: {why}")
    controller = find_controller()
    assert controller is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = controller.group_of(process.pid)
        name = f"strandline-test-{process.pid}"
        slow = SlowProcess(name, process.pid, here)
        try:
            slow.begin()
            assert controller.group_of(process.pid) == controller.root / name
            files = ("io.max", "blkio.throttle.write_iops_device")
            limits = [controller.root / name / file for file in files]
            assert any(str(WRITES_PER_S) in each.read_text() for each in limits if each.exists())
        finally:
            slow.end()
        assert controller.group_of(process.pid) == before
        assert not (controller.root / name).exists()
