"""The page of a group of commands: sections, and summaries that are never cut."""

from typing import Any, Final

import typer
from typer.core import TyperGroup

SECTIONS: Final = (
    "A cluster on this machine",
    "Records",
    "Topics and groups",
    "The state of a cluster",
    "Replicas and servers",
    "Files of a server",
    "This command line",
    "Proof",
)
"""The sections of `strandline --help`, in their order."""
OTHER: Final = "Commands"


class CommandGroup(TyperGroup):
    """Shows commands by section (`rich_help_panel`), each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is None or command.hidden:
                continue
            section = getattr(command, "rich_help_panel", None) or OTHER
            sections.setdefault(str(section), []).append((name, summary(command.help)))
        # One width for all sections, so that their columns stand below each other.
        widest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for section in sorted(sections, key=_place):
            rows = sections[section]
            with formatter.section(section):
                formatter.write_dl([(name.ljust(widest), said) for name, said in rows])


def _place(section: str) -> int:
    return SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)


def command_group(told: str, example: str, **more: Any) -> typer.Typer:
    """A group of commands, whose help ends with an example of one of them."""
    return typer.Typer(
        cls=CommandGroup,
        help=f"{told}\n\nExample: {example}",
        no_args_is_help=True,
        rich_markup_mode=None,
        **more,
    )


def summary(text: str | None) -> str:
    """The first sentence of a help text, or its first paragraph if that ends without a period."""
    words = (text or "").split("\n\n")[0].split()
    for at, word in enumerate(words):
        if word.endswith(".") and not word.endswith("..."):
            return " ".join(words[: at + 1])
    return " ".join(words)
