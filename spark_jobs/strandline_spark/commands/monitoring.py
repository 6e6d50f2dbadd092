"""The flag `--metrics-listen` of the commands that run a job."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from strandline_spark.cluster.offsets import decimal
from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from strandline_spark.pipeline.metrics import JobMetrics


def add_metrics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metrics-listen",
        metavar="HOST:PORT",
        help="serve metrics at http://HOST:PORT/metrics in Prometheus' text format while the job"
        " runs, for example 127.0.0.1:9464",
    )


def listen_address(text: str | None) -> tuple[str, int] | None:
    """Returns host and port of the flag's value. Raises OptionError."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    number = decimal(port) or 0
    if not host or not 0 < number < 65536:
        raise OptionError(
            f"--metrics-listen {text!r} is not HOST:PORT with a port of 1 to 65535; give for"
            " example 127.0.0.1:9464"
        )
    return host.removeprefix("[").removesuffix("]"), number


@contextlib.contextmanager
def metrics_served(arguments: argparse.Namespace, pipeline: str) -> Iterator[JobMetrics | None]:
    """Yields the metrics that the flag's address serves meanwhile; None without the flag."""
    address = listen_address(arguments.metrics_listen)
    if address is None:
        yield None
        return
    from strandline_spark.pipeline.metrics import JobMetrics

    metrics = JobMetrics(pipeline)
    with metrics.serving(*address):
        print(  # noqa: T201 - progress
            f"metrics: http://{arguments.metrics_listen}/metrics", file=sys.stderr, flush=True
        )
        yield metrics
