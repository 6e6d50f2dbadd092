"""`strandline chaos model`: every interleaving of three small replicas, breadth-first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.shown.output import emit_table, note, write_line

if TYPE_CHECKING:
    from strandline_proof.model.profiles import Profile
    from strandline_proof.model.search import Report


def model(
    profile: Annotated[
        list[str] | None,
        typer.Option(help="Explore this profile; may be repeated. Default: all small ones."),
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Explore the large profiles too.")] = False,
    max_states: Annotated[
        int, typer.Option(min=1, help="Limit of visited states of each profile.")
    ] = 400_000,
    depth: Annotated[int | None, typer.Option(min=1, help="Limit of steps in a history.")] = None,
) -> int:
    """Run the real decisions through every order of events.

    Leaders, followers and the controller decide. The model has three replicas, a few records, and
    the faults of each profile. The first broken invariant ends it, with the shortest history that
    leads there.

    Example: strandline chaos model
    """
    if profile and deep:
        raise UsageMistake("--deep takes every profile: give it or --profile, not both")
    rows = []
    states = transitions = 0
    began = time.monotonic()
    for name, chosen in _chosen(profile or [], deep=deep).items():
        start = time.monotonic()
        report = _explore(name, chosen, max_states=max_states, depth=depth)
        took_s = time.monotonic() - start
        states, transitions = states + report.states, transitions + report.transitions
        rows.append(_row(name, report, took_s))
        if report.violation is not None:
            emit_table(HEAD, rows)
            _show(name, report)
            return EXIT_FAILED
    total_s = time.monotonic() - began
    rows.append(["all", f"{states:,}", f"{transitions:,}", "", "", f"{total_s:.1f} s"])
    emit_table(HEAD, rows)
    return EXIT_OK


HEAD = ["profile", "states", "transitions", "depth", "explored", "time"]


def _chosen(names: list[str], *, deep: bool) -> dict[str, Profile]:
    from strandline_proof.model.profiles import PROFILES, QUICK

    for name in names:
        if name not in PROFILES:
            known = ", ".join(PROFILES)
            raise UsageMistake(f"there is no profile {name!r}: give one of {known}")
    if names:
        return {name: PROFILES[name] for name in names}
    return PROFILES if deep else QUICK


def _explore(name: str, profile: Profile, *, max_states: int, depth: int | None) -> Report:
    from strandline_proof.model.search import Search
    from strandline_proof.model.world import World

    def progress(report: Report) -> None:
        note(f"{name}: {report.states:,} states, depth {report.depth}")

    search = Search(World(profile.bounds), progress)
    return search.run(prefix=profile.start, states_max=max_states, depth_max=depth)


def _row(name: str, report: Report, took_s: float) -> list[str]:
    explored = "violated" if report.violation else "all" if report.exhausted else "to the bound"
    return [
        name,
        f"{report.states:,}",
        f"{report.transitions:,}",
        str(report.depth),
        explored,
        f"{took_s:.1f} s",
    ]


def _show(name: str, report: Report) -> None:
    write_line("")
    write_line(f"{name}: {report.violation}")
    for number, line in enumerate(report.trace, 1):
        write_line(f"{number:4} {line}")
