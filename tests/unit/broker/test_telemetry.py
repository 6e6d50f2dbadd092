"""Log lines and metrics of a server process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.common import loop_idle
from strandline_broker.telemetry import ServerMetrics, watch_event_loop
from strandline_runtime.real import RealClock, real_runtime
from support.scripted_controller import running

LOG_TWO_LINES = """
import sys
from strandline_broker.telemetry import configure_logging
configure_logging(log_format=sys.argv[1], level="info", server="broker-1")
import structlog
log = structlog.get_logger()
log.debug("hidden")
log.info("serving", port=9, why="two words")
try:
    1 / 0
except ZeroDivisionError as error:
    log.error("broken", exc_info=error)
assert "rich" not in sys.modules
"""


def logged(log_format: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOG_TWO_LINES, log_format],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_console_line_has_time_level_server_event_and_fields() -> None:
    lines = logged("console")
    assert lines[0].split(" ", 1)[1] == "info    broker-1 serving port=9 why='two words'"
    assert "broken" in lines[1]
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_a_json_line_is_one_object() -> None:
    first, second = (json.loads(line) for line in logged("json"))
    assert first["event"] == "serving"
    assert (first["level"], first["server"], first["port"]) == ("info", "broker-1", 9)
    assert "ZeroDivisionError" in second["exception"]


DROP_LINES = """
import os, sys
from strandline_runtime import log_output
log_output.LogOutput.__init__.__kwdefaults__["queue_bytes"] = 10
log_output.take_over_stderr()
from strandline_broker.telemetry import configure_logging
configure_logging(log_format=sys.argv[1], level="info", server="broker-1")
import structlog, logging
structlog.get_logger().info("too long for the queue")
class Nameless:
    def __str__(self): raise KeyError("no text")
    __repr__ = __str__
log_output.output_of_stderr()._room = 10_000
structlog.get_logger().info("odd", value=Nameless())
logging.getLogger("a.library").error("it complains")
log_output.end_process(0)
"""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_dropped_lines_odd_values_and_libraries_are_told_in_the_servers_format(
    log_format: str,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROP_LINES, log_format], capture_output=True, text=True, check=True
    )
    dropped, odd, library = done.stderr.splitlines()
    assert odd == "a log line could not be made (KeyError): 'odd'"
    if log_format == "json":
        said = json.loads(dropped)
        assert (said["level"], said["server"], said["lines"]) == ("warning", "broker-1", 1)
        told = json.loads(library)
        assert (told["level"], told["event"], told["logger"]) == (
            "error",
            "it complains",
            "a.library",
        )
    else:
        assert "warning broker-1 log lines were dropped" in dropped
        assert dropped.endswith(" lines=1")
        assert library.split(" ", 1)[1] == "error   broker-1 it complains logger=a.library"


async def test_the_longest_block_of_the_event_loop_is_measured() -> None:
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, RealClock())

    def longest() -> float:
        return registry.get_sample_value("strandline_event_loop_block_seconds_max") or 0.0

    async with running(watch_event_loop(real_runtime("broker-1"), metrics, interval_s=0.1)):
        await asyncio.sleep(0)
        started = RealClock.monotonic()
        while RealClock.monotonic() < started + 0.4:
            pass
        async with asyncio.timeout(60):
            while longest() < 0.25:  # noqa: ASYNC110 - a gauge tells nobody that it changed
                await asyncio.sleep(0)


async def test_the_idle_share_of_the_loops_thread_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_idle, "STEP_S", 0.0)
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, RealClock())
    name = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
    assert registry.get_sample_value(name) is None, "unknown before the second sample"
    async with (
        running(watch_event_loop(real_runtime("broker-1"), metrics, interval_s=0.01)),
        asyncio.timeout(60),
    ):
        while metrics.idle.share() is None:  # noqa: ASYNC110 - nothing tells that it changed
            await asyncio.sleep(0)
    share = registry.get_sample_value(name)
    assert share is not None
    assert 0 <= share <= 1


def test_the_metrics_name_the_build() -> None:
    registry = CollectorRegistry()
    ServerMetrics(registry, RealClock(), "0.1.0+7540e83e8f2c")
    labels = {"version": "0.1.0", "commit": "7540e83e8f2c"}
    assert registry.get_sample_value("strandline_build_info", labels) == 1.0
