"""The display of a consumer group: its members, and its lag as bars."""

import sys
from typing import TYPE_CHECKING, Any, Final

from strandline_cli.shown.output import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement

    from strandline.group_types import GroupDescription, GroupMember, PartitionLag
    from strandline.types import TopicPartition

BAR_WIDTH: Final = 24
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
LAG_COLUMNS: Final = ("topic", "partition", "committed", "end", "lag", "", "member")


def group_document(group: "GroupDescription") -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "lag": total_lag(group.lags),
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "member_epoch": member.member_epoch,
                "subscribed_topics": list(member.subscribed_topics),
                "subscribed_pattern": member.subscribed_pattern,
                "assignment": by_topic(member.assignment),
                "target_assignment": by_topic(member.target_assignment),
            }
            for member in group.members
        ],
        "partitions": [lag_document(lag) for lag in group.lags],
    }


def lag_document(lag: "PartitionLag") -> dict[str, Any]:
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "committed": lag.committed,
        "log_start_offset": lag.log_start_offset,
        "log_end_offset": lag.log_end_offset,
        "lag": lag.lag,
        "member_id": lag.member_id,
    }


def total_lag(lags: "Iterable[PartitionLag]") -> int:
    return sum(lag.lag or 0 for lag in lags)


def by_topic(partitions: "Iterable[TopicPartition]") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def headline(group: "GroupDescription") -> str:
    """The group in one line."""
    members = len(group.members)
    if group.type == "Classic":
        epochs = f"classic, generation {group.group_epoch}"
        epochs += f", protocol {group.assignor}" if group.assignor else ""
    else:
        epochs = f"epoch {group.group_epoch}"
    if group.assignment_epoch != group.group_epoch:
        epochs += f", assigned {group.assignment_epoch}"
    return (
        f"{group.group_id}: {group.state}, {members} member{'' if members == 1 else 's'}, {epochs}"
        f", lag {total_lag(group.lags):,}"
    )


def member_row(member: "GroupMember") -> tuple[object, ...]:
    owned, wanted = by_topic(member.assignment), by_topic(member.target_assignment)
    return (
        member.member_id if member.instance_id is None else f"{member.member_id} (static)",
        member.client_id,
        member.host,
        member.member_epoch,
        _spelled(owned),
        "" if owned == wanted else _spelled(wanted),
    )


def _spelled(partitions: dict[str, list[int]]) -> str:
    return " ".join(f"{topic}:{listed(numbers)}" for topic, numbers in partitions.items())


def lag_rows(lags: "Sequence[PartitionLag]", *, width: int = BAR_WIDTH) -> list[tuple[str, ...]]:
    """A row for each partition, with a bar against the greatest lag of them all."""
    greatest = max((lag.lag or 0 for lag in lags), default=0)
    return [
        (
            lag.partition.topic,
            str(lag.partition.partition),
            "-" if lag.committed is None else f"{lag.committed:,}",
            "gone" if lag.log_end_offset is None else f"{lag.log_end_offset:,}",
            "-" if lag.lag is None else f"{lag.lag:,}",
            bar(lag.lag or 0, greatest, width),
            lag.member_id or "-",
        )
        for lag in lags
    ]


def bar(value: int, greatest: int, width: int) -> str:
    """A bar in eighths of a cell; never empty for a value above 0."""
    if value <= 0 or greatest <= 0:
        return ""
    eighths = max(1, round(value * width * 8 / greatest))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def lag_table(group: "GroupDescription") -> "RenderableType":
    """The lag of a group for a terminal: in a narrow one, bars and names are shortened, and numbers
    are not.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=headline(group), title_justify="left")
    for column in LAG_COLUMNS:
        is_number = column in ("partition", "committed", "end", "lag")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
    greatest = max((lag.lag or 0 for lag in group.lags), default=0)
    for lag, row in zip(group.lags, lag_rows(group.lags), strict=True):
        *before, _, member_id = (Text(cell, no_wrap=True, overflow="ellipsis") for cell in row)
        table.add_row(*before, _Bar(lag.lag or 0, greatest), member_id)
    return table


class _Bar:
    """A bar as long as the room for it."""

    def __init__(self, value: int, greatest: int) -> None:
        self._value = value
        self._greatest = greatest

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.measure import Measurement

        return Measurement(1, min(BAR_WIDTH, options.max_width))

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        yield Text(bar(self._value, self._greatest, options.max_width), style="yellow")


def at_terminal() -> bool:
    return sys.stdout.isatty()
