"""`python -m strandline_chaos.live.workload`: write and read for a while, then report broken
invariants.

Exit status:

- 0 if the history is sound.
- 1 if an anomaly was found.
- 2 if no verdict can be given: the cluster did not answer, nothing was acknowledged, or the last
  reading did not reach the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from strandline_chaos.checkers import ANOMALIES, CheckResult, check
from strandline_chaos.history import History
from strandline_chaos.workload import FinalReadIncomplete, Plan, Workload
from strandline_runtime.grpc_experiments import without_event_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SOUND: Final = 0
BROKEN: Final = 1
NO_VERDICT: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    from strandline.errors import StrandlineError, describe

    try:
        verdict = _with_one_error(arguments)
    except (StrandlineError, FinalReadIncomplete) as why:
        sys.stderr.write(f"error: {describe(why)}\n")
        return NO_VERDICT
    if arguments.format != "events":
        _show(verdict, as_json=arguments.format == "json")
    if not verdict.complete:
        return NO_VERDICT
    return SOUND if verdict.sound else BROKEN


def _with_one_error(arguments: argparse.Namespace) -> CheckResult:
    """The verdict. Raises what ended the run by itself, without the groups of the tasks."""
    try:
        return asyncio.run(_run(arguments))
    except ExceptionGroup as several:
        first: Exception = several
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from several


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="strandline_chaos.live.workload",
        description="A checking producer and consumer. The verdict comes at the end.",
    )
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of writing (30)")
    parser.add_argument(
        "--topic", default="chaos", help="topic to create; it must not exist (chaos)"
    )
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--replication-factor", type=int, default=3)
    parser.add_argument("--min-insync-replicas", type=int, default=2)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=200, help="records a second of each writer")
    parser.add_argument("--record-size", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--groups", type=int, default=0, help="consumer groups (0)")
    parser.add_argument("--members", type=int, default=2, help="members of each group (2)")
    parser.add_argument("--history", type=Path, metavar="FILE", help="save the history as JSONL")
    parser.add_argument("--read-back-seconds", type=float, default=60)
    parser.add_argument(
        "--format",
        choices=("table", "json", "events"),
        default="table",
        help="events: the history on standard output, and no verdict",
    )
    return parser


async def _run(arguments: argparse.Namespace) -> CheckResult:
    from strandline_chaos.live.clients import open_reader, open_sender
    from strandline_chaos.live.groups import Group

    bootstrap, topic = arguments.bootstrap, arguments.topic
    await _create_topic(arguments)
    plan = Plan(
        topic=topic,
        keys=arguments.partitions,
        writers=arguments.writers,
        readers=arguments.readers,
        sends_per_s=arguments.rate,
        payload_size=arguments.record_size,
    )
    with contextlib.ExitStack() as files:
        history = History(_writing(arguments, files), time.monotonic_ns)
        work = Workload(
            plan,
            history,
            open_sender=lambda: open_sender(bootstrap),
            open_reader=lambda: open_reader(bootstrap, topic, arguments.partitions),
        )
        groups = [
            Group(bootstrap, topic, f"{topic}-group-{number}", arguments.members, history)
            for number in range(1, arguments.groups + 1)
        ]
        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                tasks.create_task(group.run(), name=group.name)
            await work.run(_until_told(arguments.seconds, work))
            ends = await work.read_back(arguments.read_back_seconds)
            for group in groups:
                name = f"the end of {group.name}"
                tasks.create_task(group.finish(ends, arguments.read_back_seconds), name=name)
    return check(history.events)


def _writing(
    arguments: argparse.Namespace, files: contextlib.ExitStack
) -> Callable[[str], object] | None:
    if arguments.format == "events":
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        return sys.stdout.write
    if arguments.history is None:
        return None
    opened: TextIO = files.enter_context(arguments.history.open("w", encoding="utf-8"))
    return opened.write


async def _create_topic(arguments: argparse.Namespace) -> None:
    from strandline import Admin, NewTopic

    topic = NewTopic(
        arguments.topic,
        num_partitions=arguments.partitions,
        replication_factor=arguments.replication_factor,
        config={"min.insync.replicas": str(arguments.min_insync_replicas)},
    )
    async with Admin(arguments.bootstrap) as admin:
        # An existing topic is an error: records of other writers would look like phantoms.
        await admin.create_topics([topic])


async def _until_told(seconds: float, work: Workload) -> None:
    """The time is over, or SIGINT or SIGTERM came: both end with a verdict."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    end = time.monotonic() + seconds
    while not stop.is_set() and (left_s := end - time.monotonic()) > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, 1.0)):
                await stop.wait()
        sys.stderr.write(
            f"{max(0.0, end - time.monotonic()):5.0f} s left, {work.acknowledged} acknowledged,"
            f" {work.unacknowledged} not\n"
        )


def _show(verdict: CheckResult, *, as_json: bool) -> None:
    document: dict[str, Any] = verdict.document()
    if as_json:
        sys.stdout.write(json.dumps(document) + "\n")
        return
    for name in ("sent", "acknowledged", "failed", "unknown", "read", "longest_gap_ms"):
        sys.stdout.write(f"{name:16}{document[name]}\n")
    for name, meaning in ANOMALIES.items():
        anomaly = verdict.anomalies[name]
        sys.stdout.write(f"{name:16}{anomaly.count:<8}{meaning}\n")
        for example in anomaly.examples:
            sys.stdout.write(f"                {example}\n")
    sys.stdout.write(f"verdict: {document['verdict']}\n")


if __name__ == "__main__":
    without_event_engine()
    sys.exit(main())
