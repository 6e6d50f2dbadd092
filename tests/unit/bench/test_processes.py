"""Whose processor time is counted where."""

import json
import os
import socket
import subprocess
import sys
import time

from strandline_bench.processes import Usage, listening, resident_mb_max, usage, workers

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
WAIT_S = 60.0


def burning() -> "subprocess.Popen[str]":
    """A process that has used 0.3 s of a core, and lives on until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "\n"
    return process


MEASURED = f"""
import json, subprocess, sys
from dataclasses import asdict
from strandline_bench.processes import usage
before = usage(())
child = subprocess.Popen([sys.executable, "-c", {BURN!r}], stdin=-1, stdout=-1)
child.stdout.readline()
found = [usage(()).since(before), usage((child.pid,))]
child.communicate()
print(json.dumps([asdict(each) for each in (*found, usage(()).since(before))]))
"""
"""By a process of its own: beside a test there may be the JVM of others."""


def test_what_a_child_uses_is_pythons_unless_it_is_a_broker() -> None:
    command = [sys.executable, "-c", MEASURED]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S)
    by_itself, as_broker, ended = json.loads(run.stdout)
    assert by_itself["python"] >= 0.25
    assert by_itself["jvm"] == 0.0
    assert by_itself["brokers"] == 0.0
    assert as_broker["brokers"] >= 0.25
    assert ended["python"] >= 0.25, "it has ended, and its time is its parent's"


def test_others_are_what_is_left_of_the_machine() -> None:
    assert Usage(jvm=1.0, python=0.5, brokers=0.25, busy=2.0).others == 0.25
    assert Usage(jvm=1.0, python=0.5, brokers=0.25, busy=1.0).others == 0.0
    assert Usage(3, 2, 1, 9).since(Usage(1, 1, 1, 1)) == Usage(2, 1, 0, 8)
    before = usage(())
    deadline = time.monotonic() + WAIT_S
    while usage(()).busy == before.busy:
        assert time.monotonic() < deadline


def test_a_process_is_found_by_the_port_it_listens_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listening([port]) == [os.getpid()]
    assert listening([port]) == []
    assert listening([]) == []


def test_resident_memory_is_that_of_the_peak() -> None:
    peak = resident_mb_max(os.getpid())
    assert peak is not None
    assert peak > 5
    with burning() as child:
        assert child.stdin is not None
        child.stdin.close()
    assert resident_mb_max(child.pid) is None


def test_without_a_jvm_there_are_no_workers() -> None:
    with burning() as child:
        assert workers(child.pid) == []
        assert child.stdin is not None
        child.stdin.close()
