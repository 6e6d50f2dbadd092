"""The forks in which tests run commands and servers behave as new interpreters do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strandline_runtime.grpc_experiments import SETTINGS
from support.cluster import MakeCluster
from support.command import clean_environ, start_strandline, strandline
from support.command_forks import SERVERS, Forks
from support.server_forks import server_forks

NOBODYS = ("--bootstrap", "127.0.0.1:1", "--timeout", "2")


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("--version",), b""),
        (("topic", "--help"), b""),
        (("frobnicate",), b""),
        (("log", "dump", "nothing-of-this-name"), b""),
        (("produce", "t", *NOBODYS), b"line\n" * 100_000),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_fork_says_and_ends_as_a_new_interpreter_does(
    arguments: tuple[str, ...], given: bytes, tmp_path: Path
) -> None:
    pipe = subprocess.PIPE
    new = start_strandline(arguments, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = new.communicate(given)
    forked = strandline(*arguments, stdin=given, cwd=tmp_path)
    assert (forked.status, forked.out, forked.err) == (new.returncode, out.decode(), err.decode())


def test_a_fork_has_the_environment_of_its_caller_or_is_left_to_a_new_interpreter() -> None:
    forks, given = Forks(), clean_environ()
    try:
        assert forks.can_take(["--version"], {**given, "STRANDLINE_BOOTSTRAP": "here"})
        for early in ("PYTHONUTF8", "LC_ALL", "GRPC_EXPERIMENTS"):
            assert not forks.can_take(["--version"], {**given, early: "0"})
        ours = {**SETTINGS, "GRPC_VERBOSITY": "NONE"}
        assert forks.can_take(["--version"], {**given, **ours}), "as our programs set them"
        assert not forks.can_take(["x" * 1_000_000], given)
        named = forks.start(["topic", "list"], {**given, "STRANDLINE_BOOTSTRAP": "here"}, None)
        assert b"'here' is not an address" in named.communicate(b"")[1]
        killed = forks.start(["produce", "t", *NOBODYS[:2]], given, None)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate(b"")
        assert killed.returncode == -signal.SIGKILL
    finally:
        forks.close()


def test_forks_import_nothing_that_a_tests_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError('of the test')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    forks = Forks(SERVERS)
    try:
        assert not forks.can_take(["broker", "--version"], os.environ)
        monkeypatch.undo()
        assert forks.can_take(["broker", "--version"], os.environ)
        server = forks.start(["broker", "--version"], os.environ, None)
        assert server.communicate(b"")[0].startswith(b"strandline ")
        assert server.returncode == 0
    finally:
        forks.close()


def test_a_forked_server_says_and_ends_as_a_new_interpreter_does(tmp_path: Path) -> None:
    words = ["broker", "--set", "log.segment.byte=1"]
    new = subprocess.run(
        [sys.executable, "-m", "strandline_broker", *words], capture_output=True, check=False
    )
    log = tmp_path / "log"
    with log.open("ab") as output:
        forked = server_forks().start_into(output.fileno(), words, os.environ)
    assert (forked.wait(60), log.read_bytes()) == (new.returncode, new.stderr)
    assert b"log.segment.bytes" in new.stderr


def test_a_forked_server_is_a_session_of_its_own_and_its_end_is_known(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=1)
    for process_id in cluster.process_ids:
        pid = cluster.process(process_id).pid
        assert pid is not None
        assert os.getsid(pid) == pid
        assert b"command_forks" in Path(f"/proc/{pid}/cmdline").read_bytes()
    cluster.kill(1)
    assert cluster.process(1).exit_status == -signal.SIGKILL
    cluster.start(1)
    cluster.stop(1)
    assert cluster.process(1).exit_status == 0
