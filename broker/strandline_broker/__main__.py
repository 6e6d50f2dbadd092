"""`python -m strandline_broker broker|controller`: reads the configuration and runs one server
until SIGTERM.

Exit status:

- 0 after a clean shutdown.
- 1 with one line `error: ...` if the server cannot start or stop properly.
- 70 if the server ended at once because it must not continue.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from strandline_runtime.build_id import build_id
from strandline_runtime.command_parser import CommandParser
from strandline_runtime.grpc_experiments import without_event_engine
from strandline_runtime.log_output import end_process, take_over_stderr
from strandline_runtime.real import (
    end_with_owner,
    environment,
    keep_large_buffers,
    port_is_free,
    raise_descriptor_limit,
    real_runtime,
    take_short_turns,
)
from strandline_runtime.survivors import freeze_survivors

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine, Sequence

    from strandline_broker.config.keys import ServerConfig
    from strandline_runtime.runtime import Runtime


def main(argv: Sequence[str] | None = None) -> int:
    keep_large_buffers()
    raise_descriptor_limit()
    take_short_turns()
    arguments = _parser().parse_args(argv)
    from strandline_broker.config.loading import ConfigError

    if arguments.owner_descriptor is not None:
        end_with_owner(arguments.owner_descriptor)
    try:
        overrides = _overrides(arguments.set)
        if arguments.server == "broker":
            return _broker(arguments, overrides)
        return _controller(arguments, overrides)
    except ConfigError as error:
        return _fail(error)


def _fail(error: Exception) -> int:
    sys.stderr.write(f"error: {error}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m strandline_broker",
        description="One Strandline server process.",
        example="python -m strandline_broker broker --config broker-1.toml",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"strandline {build_id()}",
        help="print the version",
    )
    parser.add_argument("server", choices=("broker", "controller"), help="the kind of server")
    parser.add_argument("--config", metavar="FILE", help="TOML file with Kafka's keys")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration key, stronger than file and environment; may be repeated",
    )
    parser.add_argument(
        "--owner-descriptor",
        metavar="N",
        type=int,
        help="reading end of a pipe; the server ends at once when the other end is closed",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the resulting configuration and exit"
    )
    return parser


def _overrides(settings: Sequence[str]) -> dict[str, str]:
    from strandline_broker.config.loading import ConfigError

    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {setting}: expected KEY=VALUE, for instance --set node.id=1")
        overrides[key.strip()] = value.strip()
    return overrides


def _broker(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    from strandline_broker.config.loading import load_broker_config

    config = load_broker_config(arguments.config, overrides, environment())
    if arguments.print_config:
        return _print(config)

    async def run(runtime: Runtime, stop: asyncio.Event) -> None:
        from strandline_broker.app import run_broker

        await run_broker(runtime, config, stop, build=build_id())

    return _run(config, f"broker-{config.node_id}", run)


def _controller(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    from strandline_broker.config.loading import load_controller_config

    config = load_controller_config(arguments.config, overrides, environment())
    if arguments.print_config:
        return _print(config)

    async def run(runtime: Runtime, stop: asyncio.Event) -> None:
        from strandline_broker.controller_app import run_controller

        await run_controller(runtime, config, stop, build=build_id())

    return _run(config, f"controller-{config.node_id}", run)


def _print(config: ServerConfig) -> int:
    from strandline_broker.config.text import printed

    sys.stdout.write(printed(config) + "\n")
    return 0


def _run(
    config: ServerConfig,
    name: str,
    run: Callable[[Runtime, asyncio.Event], Coroutine[None, None, None]],
) -> int:
    """Run one server on its event loop until SIGTERM or SIGINT."""
    import uvloop

    from strandline_broker.hosts.member.lifecycle import CannotStart
    from strandline_broker.telemetry import configure_logging, watch_process

    configure_logging(log_format=config.log_format, level=config.log_level, server=name)
    runtime = real_runtime(name)
    watch_process(runtime.metrics)
    runtime.log.info("starting", build=build_id(), pid=runtime.pid)

    async def until_signalled() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(runtime, stop)

    try:
        _check_ports(config)
        freeze_survivors()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_signalled())
    except CannotStart as error:
        return _fail(error)
    return 0


def _check_ports(config: ServerConfig) -> None:
    """Reports a port in use in one line, before gRPC reports it in its own words."""
    from strandline_broker.hosts.member.lifecycle import CannotStart

    for listener in config.listeners:
        try:
            free = listener.port == 0 or port_is_free(listener.host, listener.port)
        except OSError as error:
            raise CannotStart(f"cannot listen on {listener}: {error.strerror or error}") from None
        if not free:
            raise CannotStart(
                f"cannot listen on {listener}: the port is in use; stop the process that uses it, "
                "or "
                "set another port in listeners"
            )


if __name__ == "__main__":
    without_event_engine()
    take_over_stderr()
    end_process(main())
