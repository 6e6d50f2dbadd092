"""The real binding of the Runtime: what the storage layer and the failure detector rely on."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from strandline_runtime.real import (
    RealFileSystem,
    RealNetwork,
    client_runtime,
    keep_large_buffers,
    port_is_free,
    real_runtime,
    take_short_turns,
)
from strandline_runtime.runtime import Probe

FS = RealFileSystem()


def test_what_is_written_at_a_place_is_read_there(tmp_path: Path) -> None:
    fd = FS.open(str(tmp_path / "log"), os.O_RDWR | os.O_CREAT, 0o644)
    assert FS.pwrite(fd, b"0123456789", 0) == 10
    assert FS.pwritev(fd, [b"ab", memoryview(b"cd"), bytearray(b"e")], 3) == 5
    FS.fdatasync(fd)
    FS.fsync(fd)
    assert FS.pread(fd, 100, 0) == b"012abcde89"
    assert FS.pread(fd, 4, 8) == b"89"
    assert FS.pread(fd, 4, 50) == b""
    FS.ftruncate(fd, 5)
    assert FS.fstat(fd).size == 5
    FS.close(fd)


def test_a_file_is_replaced_as_a_whole_and_its_directory_made_durable(tmp_path: Path) -> None:
    old, new = tmp_path / "checkpoint", tmp_path / "checkpoint.tmp"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    FS.replace(str(new), str(old))
    FS.fsync_dir(str(tmp_path))
    assert old.read_bytes() == b"new"
    assert FS.listdir(str(tmp_path)) == ["checkpoint"]


def test_directories_are_made_with_their_parents_and_may_exist_already(tmp_path: Path) -> None:
    deep = str(tmp_path / "a" / "b")
    FS.makedirs(deep)
    FS.makedirs(deep)
    assert FS.isdir(deep)
    assert FS.exists(deep)
    FS.rmdir(deep)
    assert not FS.exists(deep)


def test_a_missing_file_is_the_operating_systems_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        FS.open(missing, os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        FS.unlink(missing)
    with pytest.raises(FileNotFoundError):
        FS.fsync_dir(missing)


def test_free_space_is_a_number_of_bytes(tmp_path: Path) -> None:
    assert FS.free_space(str(tmp_path)) > 0


def test_a_lock_excludes_others_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    fd = FS.lock(path)
    with pytest.raises(BlockingIOError):
        FS.lock(path)
    FS.close(fd)
    FS.close(FS.lock(path))


def test_a_lock_excludes_another_process_and_is_left_by_its_death(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from strandline_runtime.real import RealFileSystem\n"
            "RealFileSystem().lock(sys.argv[1]); print('locked', flush=True); sys.stdin.read()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError):
            FS.lock(path)
        holder.kill()
        holder.wait(10)
        FS.close(FS.lock(path))


async def test_a_listening_port_answers_a_probe() -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await RealNetwork().probe("127.0.0.1", port, 5.0) is Probe.ANSWERED


async def test_a_port_where_nobody_listens_refuses_a_probe() -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    assert await RealNetwork().probe("127.0.0.1", port, 5.0) is Probe.REFUSED


@pytest.mark.parametrize(
    ("host", "port"),
    [("host.invalid", 9), ("broker..1", 9), ("x" * 64, 9), ("a\0b", 9), ("127.0.0.1", 1 << 20)],
)
async def test_an_address_that_cannot_be_one_proves_nothing(host: str, port: int) -> None:
    assert await RealNetwork().probe(host, port, 5.0) is Probe.SILENT


async def test_a_probe_without_time_proves_nothing() -> None:
    assert await RealNetwork().probe("127.0.0.1", 9, 0.0) is Probe.SILENT


async def test_a_port_is_free_until_somebody_listens_there() -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert not port_is_free("127.0.0.1", port)
    assert port_is_free("127.0.0.1", port)


def test_an_address_that_is_not_this_machines_is_an_error_and_not_a_free_port() -> None:
    with pytest.raises(OSError, match=r"assign|resol|known"):
        port_is_free("192.0.2.1", 9092)


def test_an_executor_runs_what_it_is_given_in_order_on_a_thread_of_its_name() -> None:
    runtime = client_runtime()
    seen: list[int] = []
    with runtime.serial_executor("disk") as executor:
        for i in range(100):
            executor.submit(seen.append, i)
        name = executor.submit(lambda: threading.current_thread().name).result(10)
    assert seen == list(range(100))
    assert name.startswith("disk")


def test_a_server_raises_its_descriptors_to_what_the_system_allows() -> None:
    """And says how many: a topic that needs more is refused."""
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import resource\n"
            "from strandline_runtime.real import raise_descriptor_limit, real_runtime\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 700))\n"
            "before = real_runtime('x').descriptors\n"
            "raise_descriptor_limit()\n"
            "print(before, real_runtime('x').descriptors)\n",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert ended.stdout.split() == ["200", "700"]


def test_ids_are_sixteen_random_bytes() -> None:
    runtime = real_runtime("test")
    ids = {runtime.random_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(i) for i in ids} == {16}
    assert runtime.pid == os.getpid()


def test_exit_ends_the_process_at_once_with_its_reason_and_unwinds_nothing() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from strandline_runtime.real import client_runtime\n"
            "try: client_runtime().exit('the metadata log cannot be written')\n"
            "finally: sys.stderr.write('finally')",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 70
    assert ended.stderr == ("strandline: stopping at once: the metadata log cannot be written\n")


def test_a_client_needs_none_of_the_servers_libraries() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from strandline_runtime.real import client_runtime; client_runtime()\n"
            "bad = {'structlog', 'prometheus_client', 'uvloop', 'msgspec', 'typer', 'rich'}\n"
            "print(sorted(bad & set(sys.modules)))",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert ended.stdout == "[]\n"


def test_a_clients_log_takes_fields_and_goes_to_the_standard_library(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    client_runtime().log.warning("broker is gone", broker=2)
    assert caplog.messages == ["broker is gone broker=2"]
    assert caplog.records[0].name == "strandline"


def test_malloc_can_be_told_to_keep_large_buffers() -> None:
    keep_large_buffers()


def test_threads_can_be_told_to_take_short_turns() -> None:
    before = sys.getswitchinterval()
    try:
        take_short_turns()
        assert sys.getswitchinterval() < 0.001
    finally:
        sys.setswitchinterval(before)
