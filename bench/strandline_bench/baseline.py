"""`--baseline COMMAND`: any benchmark in alternating rounds with another checkout's `strandline`.

Each side is a separate process that runs the same benchmark with `--rounds 1`, one right after the
other. So the machine's other load affects both alike. A ratio is the median of the rounds' ratios;
above 1, this checkout's figure is larger.
"""

import argparse
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline_bench.options import BASELINE_ROUNDS, add_baseline, positive
from strandline_bench.report import Report, median, rounded
from strandline_cli.errors import CliError

VERSION_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
OWN: Final = (sys.executable, "-c", "from strandline_cli.main import main; main()")
MAY_DIFFER: Final = ("commit", "python")
"""Fields of machine and configuration that may differ; everything else must be the same."""
FOUND: Final = ("bound_by",)
"""Words of a line that were measured: they do not name the line."""

Measure = tuple[str, ...]
"""The key of a line of figures: its measure, and its fields in words (`api=send`)."""
Answer = dict[Measure, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The benchmark that both sides run, and the number of rounds."""

    baseline: tuple[str, ...]
    rounds: int
    round_s_max: int
    arguments: tuple[str, ...]
    as_json: bool


def wanted(argv: Sequence[str], *, as_json: bool) -> Comparison | None:
    """The comparison that a valid command line requests."""
    parser = argparse.ArgumentParser(add_help=False)
    add_baseline(parser)
    parser.add_argument("--rounds", type=positive, default=BASELINE_ROUNDS)
    parser.add_argument("--format")
    parser.add_argument("--json", action="store_true")
    given, arguments = parser.parse_known_args(argv)
    if given.baseline is None:
        return None
    return Comparison(
        tuple(_words(given.baseline)),
        given.rounds,
        given.baseline_round_s,
        tuple(arguments),
        as_json,
    )


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as why:
        raise CliError(f"--baseline {command}: {why}") from None
    if not words:
        raise CliError("--baseline is empty: name a command, /path/to/.venv/bin/strandline")
    return words


def run(comparison: Comparison) -> None:
    """Prints both sides' machine, commit and configuration, then each figure of both."""
    _check_is_strandline(comparison.baseline)
    report = Report(as_json=comparison.as_json)
    sides = {"this": OWN, "baseline": comparison.baseline}
    answers: dict[str, list[Answer]] = {side: [] for side in sides}
    for number in range(comparison.rounds):
        environments: dict[str, dict[str, Any]] = {}
        for side in sides if number % 2 == 0 else reversed(sides):
            _progress(f"round {number + 1} of {comparison.rounds}: {side}")
            environments[side], answer = _ask(side, sides[side], comparison)
            answers[side].append(answer)
        _check_same(environments)
        _check_measures(number, answers)
        if number == 0:
            for side, told in environments.items():
                report.put("environment", {"side": side, **told})
    for measure in answers["this"][0]:
        _compare(report, measure, {side: [a[measure] for a in answers[side]] for side in sides})


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _check_is_strandline(command: Sequence[str]) -> None:
    told = _output("the baseline", [*command, "--version"], VERSION_S_MAX)
    if not told.startswith("strandline "):
        said = next(iter(told.splitlines()), "")[:80]
        raise CliError(
            f"--baseline {shlex.join(command)} is no `strandline`: its --version is {said!r}"
        )


def _ask(
    side: str, command: Sequence[str], comparison: Comparison
) -> tuple[dict[str, Any], Answer]:
    """One round of one side: where it was measured, and its figures."""
    name = "this checkout" if side == "this" else "the baseline"
    question = [*command, "bench", *comparison.arguments, "--rounds", "1", "--format", "json"]
    lines = []
    for line in _output(name, question, comparison.round_s_max).splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("measure"), str):
            raise CliError(f"{name} ({shlex.join(question)}) said {line[:80]!r} instead of figures")
        lines.append(told)
    if not lines or lines[0].pop("measure") != "environment":
        raise CliError(f"{name} ({shlex.join(question)}) does not say what it measured")
    return lines[0], _answer(lines[1:])


def _answer(lines: Sequence[Mapping[str, Any]]) -> Answer:
    """Figures by what they are of, without the least and the most of rounds: there is one."""
    answer: Answer = {}
    for line in lines:
        if line["measure"].endswith("-round"):
            continue
        words = (
            f"{k}={v}"
            for k, v in line.items()
            if k not in ("measure", *FOUND) and isinstance(v, str)
        )
        answer[(line["measure"], *words)] = {
            figure: value
            for figure, value in line.items()
            if isinstance(value, int | float)
            and figure != "rounds"
            and not figure.endswith(("_min", "_max"))
        }
    return answer


def _check_same(environments: Mapping[str, Mapping[str, Any]]) -> None:
    ours, theirs = environments["this"], environments["baseline"]
    for key in ours.keys() & theirs.keys() - set(MAY_DIFFER):
        if ours[key] != theirs[key]:
            raise CliError(
                f"the baseline measures something else: {key} is {theirs[key]} there and"
                f" {ours[key]} here; give the option that sets it"
            )


def _check_measures(number: int, answers: Mapping[str, Sequence[Answer]]) -> None:
    """Both sides have answered with the same measures, in this round as in the first."""
    expected = answers["this"][0]
    for side, name in (("this", "this checkout"), ("baseline", "the baseline")):
        lacking = expected.keys() - answers[side][number].keys()
        if lacking or not expected:
            measure = " ".join(min(lacking)) if lacking else "a measure"
            raise CliError(
                f"the answer of {name} lacks {measure}: is its checkout older than that measure?"
                " Give it this checkout's bench/ folder, or ask for something that both have"
            )


def _compare(
    report: Report, measure: Measure, rounds: Mapping[str, Sequence[Mapping[str, float]]]
) -> None:
    """One line for each figure; one that a side lacks has no ratio."""
    name, *words = measure
    for figure in rounds["this"][0]:
        ours = [told[figure] for told in rounds["this"] if figure in told]
        theirs = [told[figure] for told in rounds["baseline"] if figure in told]
        fields: dict[str, object] = {}
        fields |= {what: word for what, _, word in (each.partition("=") for each in words)}
        fields |= {"figure": figure, "this": rounded(figure, median(ours))}
        if len(theirs) == len(ours):
            fields["baseline"] = rounded(figure, median(theirs))
            if all(theirs):
                ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
                fields |= {
                    "ratio": round(median(ratios), 3),
                    "ratio_min": round(min(ratios), 3),
                    "ratio_max": round(max(ratios), 3),
                }
        report.put(name, {**fields, "rounds": len(ours)})


def _output(name: str, command: Sequence[str], s_max: float) -> str:
    """The output of a command. The command and its processes end before this returns: an
    interrupted benchmark stops its cluster.
    """
    from strandline_runtime.grpc_experiments import environment_as_given

    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment_as_given(),
            process_group=0,  # an interruption from the terminal reaches it through us alone
        )
    except OSError as why:
        raise CliError(f"{name} cannot be run: {command[0]}: {why.strerror}") from None
    with process:
        try:
            out, err = process.communicate(timeout=s_max)
        except subprocess.TimeoutExpired:
            raise CliError(
                f"{name} has not ended within {s_max:g} s: {shlex.join(command)}; ask for less, or"
                " give it longer with --baseline-round-s"
            ) from None
        finally:
            _end(process)
    if process.returncode != 0:
        last = next(iter(err.strip().splitlines()[-1:]), "it said nothing")
        raise CliError(
            f"{name} failed with status {process.returncode}: {shlex.join(command)}: {last}"
        )
    return out


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
