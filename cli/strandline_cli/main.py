"""The `strandline` command. Each subcommand lives in a separate file, and imports its dependencies
when it runs.
"""

import gc
import os
import sys
from typing import Final, NoReturn

from strandline_cli import standard_streams
from strandline_cli.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    CliError,
    ClusterError,
    OutputFailed,
    ReaderLeft,
)
from strandline_runtime.build_id import build_id
from strandline_runtime.extras import what_is_missing
from strandline_runtime.grpc_experiments import without_event_engine
from strandline_runtime.log_output import take_over_stderr

COMPLETION_VARIABLE: Final = "_STRANDLINE_COMPLETE"
"""The variable by which a shell asks for completions."""
_YOUNG: Final = 50_000
"""Objects between two looks for garbage. What a command imports is a hundred thousand that stay: a
look at each of them, again and again, and once more at the end, is a quarter of a short command.
"""


def main() -> NoReturn:
    """Entry point: runs the command and ends the process with its exit status."""
    gc.set_threshold(_YOUNG)
    standard_streams.complete()
    without_event_engine()
    # gRPC's own lines (a broker that says goodbye) are not for the user of a command.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if sys.argv[1:2] == ["up"]:
        # It stays with its cluster: a stalled terminal or pipe must not hold it up.
        take_over_stderr()
    status = run(sys.argv[1:])
    gc.freeze()
    sys.exit(status)


def run(argv: list[str]) -> int:
    """Run one command line. Every mistake becomes one line on stderr and an exit status, never a
    traceback.
    """
    show_traceback = "--traceback" in argv[:1]
    if show_traceback:
        argv = argv[1:]
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except ReaderLeft:
        standard_streams.let_go_of_stdout()
        return EXIT_OK
    except OutputFailed as why:
        standard_streams.let_go_of_stdout()
        _say(str(why))
        return why.exit_code
    except ClusterError as why:
        _say(str(why))
        return why.exit_code
    except Exception as why:
        if show_traceback:
            raise
        _say(_explain(why))
        return EXIT_FAILED


def _dispatch(argv: list[str]) -> int:
    if argv == ["--version"]:
        # Answered without importing the command line's libraries: scripts ask often.
        print(f"strandline {build_id()}")
        return EXIT_OK
    if missing := what_is_missing("broker"):
        raise CliError(missing)
    if argv[:1] == ["bench"]:
        return _bench(argv[1:])
    import typer

    from strandline_cli.app import build_app

    command = typer.main.get_command(build_app())
    if COMPLETION_VARIABLE in os.environ:
        from strandline_cli.commands.completion import prepare

        prepare(command)
    try:
        outcome = command(
            args=_with_default_wait(argv), prog_name="strandline", standalone_mode=False
        )
    except typer.Abort:
        return EXIT_INTERRUPTED
    except typer.TyperException as why:
        if type(why).__name__ == "NoArgsIsHelpError":
            print(why.format_message())
            return EXIT_USAGE
        context = getattr(why, "ctx", None)
        where = "" if context is None else f" (see `{context.command_path} --help`)"
        _say(" ".join(why.format_message().split()) + where)
        return why.exit_code
    return outcome if isinstance(outcome, int) else EXIT_OK


def _with_default_wait(argv: list[str]) -> list[str]:
    """`health --wait` without a number waits half a minute; typer has no options with an optional
    value.
    """
    if argv[:1] != ["health"] or "--wait" not in argv:
        return argv
    at = argv.index("--wait") + 1
    has_value = at < len(argv) and argv[at].replace(".", "", 1).isdecimal()
    return argv if has_value else [*argv[:at], "30", *argv[at:]]


def _bench(argv: list[str]) -> int:
    """Runs a benchmark. Benchmarks parse their own options; their package is imported only on
    demand.

    A benchmark stops the cluster that it has started, however it ends.
    """
    from strandline_bench.main import run as run_bench
    from strandline_cli.interrupts import signals_as_interrupt

    try:
        with signals_as_interrupt():
            outcome: object = run_bench(argv)
    except SystemExit as ended:  # argparse's way to end
        outcome = ended.code
    if isinstance(outcome, str):
        _say(outcome.removeprefix("error: "))
        return EXIT_FAILED
    return outcome if isinstance(outcome, int) else EXIT_OK


def _explain(why: Exception) -> str:
    from strandline_proto.errors import WireError

    text = " ".join(str(why).split())
    if isinstance(why, WireError):
        return text or type(why).__name__
    if isinstance(why, OSError):
        return text
    where = "an unexpected failure: `strandline --traceback ...` shows where"
    return f"{type(why).__name__}: {text} ({where})"


def _say(line: str) -> None:
    print(f"error: {line}", file=sys.stderr)
