"""The commands' use of the client library: one event loop, one deadline, errors as one line."""

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any, TypeVar

from strandline_cli.errors import CliError, ClusterError

T = TypeVar("T")

_REMEDIES = {
    "NoBrokerReachable": "check the addresses, or start the cluster with `strandline up`",
    "UnknownTopicOrPartition": "`strandline topic list` shows the topics there are",
    "TopicAlreadyExists": "choose another name, or delete it with `strandline topic delete`",
    "NotController": "start the controller (`strandline start controller`) and try again",
    "BrokerIdNotRegistered": "`strandline status` shows the brokers there are",
    "EligibleLeadersNotAvailable": "`strandline topic describe` shows who is in sync",
    "InvalidReplicationFactor": "`strandline status` shows the live brokers",
}


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that uses the client library; its errors become a CliError."""
    from strandline.errors import StrandlineError
    from strandline_proto.errors import WireError

    try:
        return _run(work)
    except BaseExceptionGroup as failures:
        known = _first_known(failures)
        if known is None:
            raise
        raise _as_cli_error(known) from failures
    except (StrandlineError, WireError) as why:
        raise _as_cli_error(why) from why


def _first_known(failures: BaseExceptionGroup[BaseException]) -> Exception | None:
    """The first failure of a group of tasks that says by itself what is wrong."""
    from strandline.errors import StrandlineError
    from strandline_proto.errors import WireError

    for failure in failures.exceptions:
        if isinstance(failure, BaseExceptionGroup):
            inner = _first_known(failure)
            if inner is not None:
                return inner
        elif isinstance(failure, ClusterError | StrandlineError | WireError):
            return failure
    return None


def _as_cli_error(why: Exception) -> ClusterError:
    from strandline.errors import describe

    if isinstance(why, ClusterError):
        return why
    text, remedy = describe(why), _REMEDIES.get(type(why).__name__)
    return CliError(text if remedy is None else f"{text} ({remedy})")


def _run(work: Coroutine[Any, Any, T]) -> T:
    return _runner().run(work)


@functools.cache
def _runner() -> asyncio.Runner:
    """One event loop for the whole command: gRPC's poller stays with the first loop it meets."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
