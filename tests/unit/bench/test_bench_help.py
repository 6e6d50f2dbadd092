"""The help of the benchmarks, and of `strandline-spark`, looks like that of the other commands."""

import re
import shlex
from collections.abc import Iterator

import pytest

from strandline_bench import options
from strandline_bench.console import options as console
from strandline_bench.group import options as group
from strandline_bench.kafka import options as kafka
from strandline_bench.log import options as log
from strandline_bench.spark import options as spark
from strandline_bench.transactions import options as transactions
from strandline_broker.__main__ import _parser as server
from strandline_runtime.command_parser import CommandParser
from strandline_spark.commands import main as spark_jobs
from strandline_spark.commands.help_examples import SECTIONS, parsers


def everything() -> Iterator[tuple[str, CommandParser]]:
    """Each parser by its program's name."""
    made = [each._parser() for each in (options, console, group, kafka, log, spark, transactions)]
    jobs = spark_jobs._parser()
    assert isinstance(jobs, CommandParser)
    for parser in (*made, server(), *parsers(jobs).values()):
        assert isinstance(parser, CommandParser)
        yield parser.prog, parser


ALL = dict(everything())
ROOTS = sorted(ALL, key=len)


@pytest.mark.parametrize("prog", ALL)
def test_the_page_fits_and_has_a_text_an_example_and_no_option_without_a_meaning(prog: str) -> None:
    parser = ALL[prog]
    page = parser.format_help()
    assert re.match(rf"Usage: {re.escape(prog)} ", page)
    assert parser.description
    assert f"\n  Example: {parser.example}\n" in page
    long = [line for line in page.splitlines() if len(line) > 80]
    assert all(" " not in line.strip() for line in long), long
    for action in parser._actions:
        if action.option_strings:
            assert action.help, action.option_strings


@pytest.mark.parametrize("prog", ALL)
def test_the_example_is_accepted(prog: str) -> None:
    words = shlex.split(ALL[prog].example)
    root = max((r for r in ROOTS if ALL[prog].example.startswith(r)), key=len)
    assert ALL[prog].example.startswith(prog)
    program = "strandline-spark" if words[0] == "strandline-spark" else root
    ALL[program].parse_args(words[len(program.split()) :])


def test_every_spark_command_stands_in_a_section_and_its_summary_in_a_line() -> None:
    page = ALL["strandline-spark"].format_help()
    assert "\nCommands:\n" not in page
    for names in SECTIONS.values():
        for name in names:
            assert re.search(rf"^  {name} +[A-Z].*[.]$", page, re.MULTILINE), name
