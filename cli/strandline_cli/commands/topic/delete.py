"""`strandline topic delete`."""

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
    TopicArgument,
)
from strandline_cli.shown.output import emit_done


def delete(
    topic: TopicArgument,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Delete a topic and its records.

    Example: strandline topic delete orders
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> None:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            await admin.delete_topics([topic])

    run_client(work())
    emit_done(output, {"name": topic, "deleted": True}, f"deleted {topic}")
    return 0
