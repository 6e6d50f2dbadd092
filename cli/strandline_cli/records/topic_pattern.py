"""Topics by a regular expression, in RE2's syntax, which must match the whole name.

The brokers read the patterns of consumer groups in the same way. Internal topics match none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from strandline_cli.errors import CliError, UsageMistake

if TYPE_CHECKING:
    from strandline import Admin


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether a name matches. Raises UsageMistake."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as why:
        reason = why.args[0] if why.args else why
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        hint = "; `orders.*` matches all names that begin with orders" if "*" in pattern else ""
        raise UsageMistake(
            f"--pattern {pattern!r} is no regular expression ({text}){hint}"
        ) from None
    return lambda name: compiled.fullmatch(name) is not None


async def matching_topics(admin: "Admin", pattern: str) -> list[str]:
    """The names of the topics that match, sorted. Raises CliError if none does."""
    matches = compile_pattern(pattern)
    names = sorted(name for name in await admin.describe_topics() if matches(name))
    if not names:
        raise CliError(
            f"no topic matches the pattern {pattern!r}, which must match a whole name:"
            " `strandline topic list` shows the topics there are"
        )
    return names
