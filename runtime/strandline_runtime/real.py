"""The real binding of the Runtime, and the only module that uses the outside; before it,
`grpc_experiments` sets one variable.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import random
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from strandline_runtime import byte_streams
from strandline_runtime.client_ids import user_agent
from strandline_runtime.log_output import end_process
from strandline_runtime.runtime import CONNECTIONS_MAX, FileStat, Probe, Runtime

if TYPE_CHECKING:
    import grpc.aio

DESCRIPTORS_MAX: Final = 1 << 20
"""Number of descriptors that is assumed if the system has no limit."""

# Above the fetch limits on purpose: one batch of message.max.bytes always fits, with its protobuf
# frame.
MESSAGE_BYTES_MAX: Final = 64 << 20

# A broken channel is tried again within a second (a failover is not a minute long), and a half-open
# peer is noticed by keepalive even while no call is under way. What gRPC calls the least back-off
# is how long one attempt to connect may take: two round trips, more if a packet is lost or a
# processor is busy. A name is looked up again after half a second, not thirty: a broker that comes
# back may have another address.
CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
SERVER_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
]


class RealClock:
    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class RealFileSystem:
    # These are the functions themselves, not wrappers: a bound builtin costs a tenth of a method
    # that calls it.
    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    pwritev = staticmethod(os.pwritev)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(os.fdatasync)
    ftruncate = staticmethod(os.ftruncate)
    replace = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    listdir = staticmethod(os.listdir)
    exists = staticmethod(os.path.exists)
    isdir = staticmethod(os.path.isdir)

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def fstat(self, fd: int) -> FileStat:
        stat = os.fstat(fd)
        return FileStat(stat.st_size, stat.st_mtime)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def free_space(self, path: str) -> int:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_space(self, path: str) -> int:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize


class RealNetwork:
    listen = staticmethod(byte_streams.listen)
    connect = staticmethod(byte_streams.connect)

    async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            return Probe.REFUSED
        except (OSError, TimeoutError, ValueError, OverflowError):
            return Probe.SILENT  # the last two: no such host or port can be
        writer.close()
        return Probe.ANSWERED

    async def resolves(self, host: str) -> bool:
        try:
            await asyncio.get_running_loop().getaddrinfo(host, None)
        except (OSError, ValueError):  # the latter: no such name can be
            return False
        return True

    def channel(self, target: str, client_id: str | None = None) -> grpc.aio.Channel:
        import grpc.aio

        options = CHANNEL_OPTIONS
        if client_id is not None:
            options = [*options, ("grpc.primary_user_agent", user_agent(client_id))]
        return grpc.aio.insecure_channel(target, options=options)

    def server(self, connections_max: int = CONNECTIONS_MAX) -> grpc.aio.Server:
        import grpc.aio

        bound = ("grpc.max_allowed_incoming_connections", connections_max)
        return grpc.aio.server(options=[*SERVER_OPTIONS, bound])


def _executor(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)


def _exit(why: str) -> NoReturn:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"strandline: stopping at once: {why}\n")
    end_process(70)  # EX_SOFTWARE


def keep_large_buffers() -> None:
    """Tell glibc's malloc to keep buffers of up to 64 MiB instead of mapping each one again.

    Page faults on fresh mappings are a third of all CPU at batches of 256 KiB and more
    (docs/internals/architecture.md). A C library without mallopt is left alone.
    """
    import ctypes

    m_trim_threshold, m_mmap_threshold = -1, -3
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(m_mmap_threshold, 64 << 20)
        libc.mallopt(m_trim_threshold, 256 << 20)


def take_short_turns() -> None:
    """Make a computing thread, such as the log cleaner's, yield to the event loop within half a
    millisecond instead of five. The loop waits that long at each wake-up.
    """
    sys.setswitchinterval(0.0005)


def raise_descriptor_limit() -> None:
    """Raise the limit on open files as far as the system allows."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a system may allow less than its stated limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _descriptors() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else min(soft, DESCRIPTORS_MAX)


def end_with_owner(descriptor: int) -> None:
    """End this process at once when the other end of the pipe `descriptor` is closed: the program
    that started this server has ended.
    """

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, 1):
                pass
        _exit("the program that owns this server has ended")

    os.set_inheritable(descriptor, False)
    threading.Thread(target=wait, name="owner", daemon=True).start()


def read_file(path: str) -> bytes:
    """The content of a small file, before a Runtime exists: a server's configuration."""
    with open(path, "rb") as file:
        return file.read()


def environment() -> dict[str, str]:
    """The process's environment variables."""
    return dict(os.environ)


def port_is_free(host: str, port: int) -> bool:
    """True if a server could listen there; a name that does not resolve raises OSError."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def reserve_port(host: str, port: int) -> bool:
    """Take a port for a server that starts within a minute; False if the port is in use.

    A connection that was closed here keeps the port in TIME_WAIT. Another process that reserves
    ports finds it in use. A server takes it, because servers set SO_REUSEADDR.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener, socket.socket(family) as client:
        try:
            listener.bind((host, port))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for the next
            listener.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.close()  # before the client: the end that closes first is in TIME_WAIT
    return True


def real_runtime(name: str) -> Runtime:
    """The operating system's clock, disk, randomness, network and threads, for process `name`."""
    import structlog
    from prometheus_client import CollectorRegistry

    return Runtime(
        clock=RealClock(),
        fs=RealFileSystem(),
        rng=random.SystemRandom(),
        network=RealNetwork(),
        serial_executor=_executor,
        exit=_exit,
        metrics=CollectorRegistry(),
        log=structlog.get_logger(name),
        pid=os.getpid(),
        descriptors=_descriptors(),
        thread_cpu_s=time.thread_time,
    )


def _line(event: str, fields: dict[str, object]) -> str:
    return " ".join([event, *(f"{name}={value}" for name, value in fields.items())])


class _PlainLog:
    """The calling convention of structlog over the standard library's logging, when structlog is
    missing.
    """

    def __init__(self, name: str) -> None:
        import logging

        self._log = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self._log.debug("%s", _line(event, fields))

    def info(self, event: str, **fields: object) -> None:
        self._log.info("%s", _line(event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self._log.warning("%s", _line(event, fields))

    def error(self, event: str, **fields: object) -> None:
        self._log.error("%s", _line(event, fields))


def client_runtime() -> Runtime:
    """The parts of the Runtime that the client library uses: no metrics, the standard library's
    logging.
    """
    return Runtime(
        clock=RealClock(),
        fs=RealFileSystem(),
        rng=random.SystemRandom(),
        network=RealNetwork(),
        serial_executor=_executor,
        exit=_exit,
        metrics=cast("Any", None),
        log=cast("Any", _PlainLog("strandline")),
        pid=os.getpid(),
    )
