"""The examples of the commands of `strandline-spark`, and the sections of its help."""

from __future__ import annotations

import argparse
from typing import Final

from strandline_runtime.command_parser import CommandParser

SECTIONS: Final = {
    "Jobs": ("run", "ingest", "gold", "state", "replay", "rebuild"),
    "Looking at tables": ("latest", "verify", "lag", "report"),
    "Care of files": ("compact", "vacuum", "retention", "forget"),
    "Getting started": ("example", "prepare"),
}
"""The commands by the sections of the help."""
EXAMPLES: Final = {
    "": "strandline-spark run pipeline.toml --every 10s",
    "ingest": "strandline-spark ingest silver pipeline.toml",
    "ingest bronze": "strandline-spark ingest bronze --topics a --table t --checkpoint c",
    "ingest silver": "strandline-spark ingest silver pipeline.toml --every 10s",
    "run": "strandline-spark run pipeline.toml --every 10s",
    "gold": "strandline-spark gold pipeline.toml",
    "state": "strandline-spark state reset planes pipeline.toml",
    "latest": "strandline-spark latest tables/silver/orders",
    "verify": "strandline-spark verify pipeline.toml --values",
    "example": "strandline-spark example access",
    "compact": "strandline-spark compact tables/bronze/orders",
    "vacuum": "strandline-spark vacuum tables/bronze/orders --keep 7d --dry-run",
    "retention": "strandline-spark retention tables/silver/orders --older-than 90d",
    "forget": 'strandline-spark forget pipeline.toml --where "user_id = 17"',
    "lag": "strandline-spark lag checkpoints/orders",
    "replay": "strandline-spark replay orders --from earliest --table tables/again",
    "rebuild": "strandline-spark rebuild silver pipeline.toml",
    "rebuild silver": "strandline-spark rebuild silver pipeline.toml --quarantine-only",
    "prepare": "strandline-spark prepare",
    "report": "strandline-spark report tables/bronze/orders --output report.html",
}
"""A command line for each command and group."""


def add_examples(parser: CommandParser) -> None:
    """Gives each command its example, and the program its sections."""
    parser.sections = SECTIONS
    for path, each in parsers(parser).items():
        each.example = EXAMPLES[path]
        for action in each._actions:
            if action.dest == "format" and action.help is None:
                action.help = "output format: table for people, json for scripts"


def parsers(parser: CommandParser, path: str = "") -> dict[str, CommandParser]:
    """Each command and group by its words."""
    found = {path: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help for choice in action._choices_actions}
            for name, child in action.choices.items():
                assert isinstance(child, CommandParser)
                child.description = child.description or said.get(name)
                found |= parsers(child, f"{path} {name}".strip())
    return found
