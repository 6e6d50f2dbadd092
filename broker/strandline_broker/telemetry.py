"""A server's log lines on standard error, and its metrics.

A log line is one event with its fields, as key=value for people or as JSON for machines. Metrics
live in the Runtime's registry, so that each process of a simulated cluster has its own.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.common.loop_idle import LoopIdle
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_runtime.build_id import commit_of, version_of
from strandline_runtime.log_output import output_of_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from prometheus_client import CollectorRegistry
    from structlog.typing import FilteringBoundLogger, Processor

    from strandline_runtime.runtime import Clock, Runtime

LOOP_WINDOW_S: Final = 60.0
DROPPED: Final = "log lines were dropped: their output, a full disk or an unread pipe, took no more"
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure_logging(*, log_format: str, level: str, server: str) -> None:
    """Configure logging once, at the start of a server process. `server` names the process in each
    line, for instance broker-1. `log_output` has redirected standard error before, so no line
    raises or waits.
    """
    structlog = _import_structlog()

    def add_server(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["server"] = server
        return event

    render = structlog.processors.JSONRenderer() if log_format == "json" else _console
    line = _line_of(
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_server,
        structlog.processors.format_exc_info,
        render,
    )
    structlog.configure(
        processors=[line],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ForeignLines(structlog.get_logger())], force=True)
    output = output_of_stderr()
    if output is not None:
        output.notice = lambda dropped: (
            f"{line(None, 'warning', {'event': DROPPED, 'lines': dropped})}\n"
        )


def _line_of(*steps: Processor) -> Callable[[Any, str, MutableMapping[str, Any]], str]:
    """A processor that makes the line. It never raises: a value that has no text is no reason for
    the work that is logged to fail.
    """

    def line(logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        made: Any = dict(event)
        try:
            for step in steps:
                made = step(logger, level, made)
        except Exception as error:  # noqa: BLE001 - logging never fails its caller
            return f"a log line could not be made ({type(error).__name__}): {event.get('event')!r}"
        return str(made)

    return line


class _ForeignLines(logging.Handler):
    """Log records of libraries that use the standard library's logging, in this format."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
            say(record.getMessage(), logger=record.name, exc_info=record.exc_info)
        except Exception:  # noqa: BLE001 - logging never fails its caller
            self.handleError(record)


def watch_process(registry: CollectorRegistry) -> None:
    """Register the metrics of this process: its CPU time, memory and files, and dropped log
    lines.
    """
    from prometheus_client import Gauge, ProcessCollector

    ProcessCollector(registry=registry)
    output = output_of_stderr()
    if output is not None:
        Gauge(
            "strandline_log_lines_dropped",
            "Log lines that were dropped, as a full disk or an unread pipe took no more.",
            registry=registry,
        ).set_function(lambda: output.dropped)


def _import_structlog() -> Any:
    """structlog imports rich for a renderer that no server uses: 5 MB and a tenth of the start-up
    time. It does without if rich cannot be found.
    """
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment] # None says: there is no such module
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog


def _console(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    fields = dict(event)
    exception = fields.pop("exception", None)
    head = (
        f"{fields.pop('timestamp', '')} {fields.pop('level', ''):<7} {fields.pop('server', '')} "
        f"{fields.pop('event', '')}"
    )
    line = head + "".join(f" {key}={_quoted(value)}" for key, value in fields.items())
    return line if exception is None else f"{line}\n{exception}"


def _quoted(value: Any) -> str:
    text = str(value)
    return repr(text) if text == "" or any(c.isspace() for c in text) else text


class ServerMetrics:
    """The metrics that both servers have."""

    def __init__(self, registry: CollectorRegistry, clock: Clock, build: str = "") -> None:
        from prometheus_client import Counter, Gauge, Info

        self.times = RequestTimes(clock)
        registry.register(self.times)
        self.idle = LoopIdle()
        registry.register(self.idle)
        self.build = Info("strandline_build", "The build that runs.", registry=registry)
        self.build.info({"version": version_of(build), "commit": commit_of(build)})

        self.requests = Counter(
            "strandline_requests", "Calls begun, streams included.", ["method"], registry=registry
        )
        self.failures = Counter(
            "strandline_request_failures",
            "Calls that ended in an error which the server did not foresee.",
            ["method"],
            registry=registry,
        )
        self.loop_lag = Gauge(
            "strandline_event_loop_lag_seconds",
            "How late the event loop was at the last check.",
            registry=registry,
        )
        self.loop_block_max = Gauge(
            "strandline_event_loop_block_seconds_max",
            "The longest time the event loop was blocked in the last minute.",
            registry=registry,
        )


async def watch_event_loop(runtime: Runtime, metrics: ServerMetrics, interval_s: float) -> None:
    """Measures how late a timer fires, until cancelled: nothing may block the loop long (P-62). It
    also measures the idle share of the loop's thread.
    """
    clock = runtime.clock
    recent: list[tuple[float, float]] = []
    while True:
        before = clock.monotonic()
        await asyncio.sleep(interval_s)
        now = clock.monotonic()
        lag = max(0.0, now - before - interval_s)
        metrics.loop_lag.set(lag)
        if runtime.thread_cpu_s is not None:
            metrics.idle.note(now, runtime.thread_cpu_s())
        # A later, longer block makes every earlier one irrelevant: the list stays short.
        while recent and recent[-1][1] <= lag:
            recent.pop()
        recent.append((now, lag))
        while recent[0][0] < now - LOOP_WINDOW_S:
            recent.pop(0)
        metrics.loop_block_max.set(recent[0][1])
