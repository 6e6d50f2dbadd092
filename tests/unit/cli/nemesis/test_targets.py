"""The parts of a live chaos run that can be tested without a cluster."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from strandline_chaos.faults import plan
from strandline_cli.errors import EXIT_USAGE, ClusterError, UsageMistake
from strandline_cli.main import run
from strandline_cli.nemesis.compose import find
from strandline_cli.nemesis.delay_line import pass_on
from strandline_cli.nemesis.local import links, number_in
from strandline_cli.nemesis.network import HUB
from strandline_cli.nemesis.server import set_clock
from strandline_cli.nemesis.workload_process import WorkloadProcess
from strandline_local.tools import run_tool

NAMES = ["broker-1", "broker-2", plan.CONTROLLER]


def test_a_partition_cuts_the_links_that_its_kind_names() -> None:
    ahead = [("broker-1", other) for other in ("broker-2", plan.CONTROLLER, HUB)]
    behind = [(other, name) for name, other in ahead]
    assert set(links(plan.CUT_OFF, "broker-1", NAMES)) == {*ahead, *behind}
    assert set(links(plan.MUTE, "broker-1", NAMES)) == set(ahead)
    assert set(links(plan.SERVERS_ONLY, "broker-1", NAMES)) == {*ahead[:2], *behind[:2]}
    assert set(links(plan.CONTROLLER_ONLY, "broker-1", NAMES)) == {ahead[1], behind[1]}


def test_the_number_of_a_detail_is_read() -> None:
    assert number_in("358 ms") == 358
    assert number_in("-3600 s") == -3600
    assert number_in("stalls of 50 ms") == 50


def test_a_clock_moves_under_a_running_process_and_back(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    set_clock(clock, 0.0)
    script = (
        "import sys, time; from pathlib import Path;"
        "from strandline_cli.nemesis.server import follow_clock;"
        "true = time.time; follow_clock(Path(sys.argv[1]));\n"
        "for _ in sys.stdin: print(round(time.time() - true()),"
        " round(time.time_ns() / 1e9 - true()), flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(clock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for ahead_s in (0, 600, -3600, 0):
            set_clock(clock, ahead_s)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{ahead_s} {ahead_s}\n"
    finally:
        process.communicate()


def test_a_delay_line_passes_on_both_ways_and_ends_with_its_parent() -> None:
    (near, one), (far, other) = (socket.socketpair(type=socket.SOCK_SEQPACKET) for _ in range(2))
    until, end = os.pipe()
    for side in (one, other):
        side.setblocking(False)
    line = threading.Thread(target=pass_on, args=(one.fileno(), other.fileno(), until, 0.05))
    with near, one, far, other:
        line.start()
        begun_s = time.monotonic()
        for packet in (b"first", b"second"):
            near.send(packet)
        assert [far.recv(100), far.recv(100)] == [b"first", b"second"]
        assert time.monotonic() - begun_s >= 0.05
        far.send(b"back")
        assert near.recv(100) == b"back"
        os.close(end)
        line.join(10)
        assert not line.is_alive()
    os.close(until)


def test_a_tool_that_fails_says_why() -> None:
    with pytest.raises(ClusterError, match=r"there is no program strandline-nothing"):
        run_tool("strandline-nothing")
    with pytest.raises(ClusterError, match=r"`false x` failed"):
        run_tool("false", "x")


def test_containers_need_a_compose_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageMistake, match=r"no docker-compose.yml here: run this in the repo"):
        find()


def test_the_console_of_containers_names_its_own_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["console", "--compose"]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert told.startswith("error: there is no docker-compose.yml here: ")
    assert told.endswith("or leave out --compose\n")


def test_a_workload_that_ends_or_babbles_is_no_verdict(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "import sys; print('what?'); sys.stderr.write('error: it broke\\n'); sys.exit(3)"
    work = WorkloadProcess([sys.executable, "-c", script], log)
    assert work.wait(60)
    assert "no event of a history" in work.why_ended()
    script = "import sys; sys.stderr.write('error: it broke\\n'); sys.exit(3)"
    work = WorkloadProcess([sys.executable, "-c", script], log)
    assert work.wait(60)
    assert work.why_ended().startswith("the workload ended with exit status 3: error: it broke")
