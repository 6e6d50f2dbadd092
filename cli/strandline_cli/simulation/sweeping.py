"""A sweep of simulations as a command shows it: progress, failures as they come, and the tables."""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING, Any, Final

from strandline_cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from strandline_cli.interrupts import signals_as_interrupt
from strandline_cli.options import Format
from strandline_cli.shown.output import emit_json, emit_table, note, write_line
from strandline_cli.simulation.plans import save_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from strandline_proof.sim.plan.plan import Plan
    from strandline_proof.sim.run.report import RunSummary
    from strandline_proof.sim.sweep.sweep import Finding

PROGRESS_S: Final = 5.0


class Sweep:
    """The parameters of a sweep.

    - `number`: plans at most; None if the time limits the sweep.
    - `varied`: every kind of fault must occur.
    - `go_on`: the command that runs the rest after an interrupt.
    - `commit`: that of the sources at the start; by the end, files may differ.
    """

    def __init__(
        self,
        *,
        number: int | None,
        varied: bool,
        commit: str,
        save: Path,
        output: Format,
        go_on: Callable[[int], str],
    ) -> None:
        from strandline_proof.sim.sweep.sweep import Tally

        self._tally = Tally()
        self._number = number
        self._varied = varied
        self._commit = commit
        self._save = save
        self._output = output
        self._go_on = go_on
        self._kept: dict[str, Path] = {}
        self._running: dict[int, int] = {}
        """The place of each plan that has begun and not ended, by the plan's identity."""
        self._begun = 0
        self._start = self._told = time.monotonic()

    def run(
        self,
        plans: Iterable[Plan],
        sweep: Callable[[Iterable[Plan], Callable[[RunSummary], None]], None],
    ) -> int:
        """Run the sweep in a pool of workers; returns the exit status. Ctrl-C ends it at once, with
        the results so far.
        """
        from strandline_cli.errors import CliError
        from strandline_proof.sim.sweep.pool import NoWorker

        interrupted = False
        try:
            with signals_as_interrupt():
                sweep(self._counted(plans), self._on_result)
        except NoWorker as why:
            raise CliError(str(why)) from None
        except KeyboardInterrupt:
            interrupted = True
            done = min(self._running.values(), default=self._begun)
            note(f"interrupted; the rest: {self._go_on(done)}")
        return self._end(interrupted=interrupted)

    def _counted(self, plans: Iterable[Plan]) -> Iterator[Plan]:
        for plan in plans:
            self._running[id(plan)] = self._begun
            self._begun += 1
            yield plan

    def _on_result(self, result: RunSummary) -> None:
        self._running.pop(id(result.plan), None)
        if self._tally.add(result):
            self._tell_failure(result)
        now = time.monotonic()
        if now - self._told > PROGRESS_S:
            self._told = now
            self._tell_progress(now - self._start)

    def _tell_failure(self, result: RunSummary) -> None:
        assert result.broken is not None
        file = self._kept[result.broken.kind] = save_plan(result.plan, self._save)
        say = note if self._output is Format.JSON else write_line
        say(result.plan.text())
        say(result.broken.report)
        say(f"BROKEN {result.broken.invariant}: {result.broken.what}")
        say(f"replay: strandline chaos replay {file}")

    def _tell_progress(self, seconds: float) -> None:
        tally, number = self._tally, self._number
        done = f"{tally.runs}" if number is None else f"{tally.runs} of {number}"
        left = ""
        if number is not None:
            left = f", {seconds / tally.runs * (number - tally.runs):.0f} s left"
        note(
            f"{done} schedules in {seconds:.0f} s ({60 * tally.runs / seconds:.0f} a minute),"
            f" {tally.failures} broken{left}"
        )

    def _end(self, *, interrupted: bool) -> int:
        seconds = max(time.monotonic() - self._start, 0.001)
        idle = self._tally.idle() if self._varied else []
        lenient = self._tally.too_lenient() if self._varied else []
        if self._output is Format.JSON:
            emit_json(self._document(seconds, idle, lenient, interrupted=interrupted))
        else:
            self._show(seconds, idle, lenient)
        if self._tally.failures:
            return EXIT_FAILED
        if interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if idle or lenient else EXIT_OK

    def _show(self, seconds: float, idle: list[str], lenient: list[str]) -> None:
        tally = self._tally
        emit_table(("fault", "struck"), sorted(tally.struck.items()))
        emit_table(("sometimes", "count"), sorted(tally.sometimes.items()))
        emit_table(
            ("measure", "count", "p50 ms", "p90 ms", "max ms"),
            [(name, *spread.document().values()) for name, spread in sorted(tally.spreads.items())],
        )
        for finding in tally.findings.values():
            write_line(f"BROKEN {_summary(finding)}")
        for event in idle:
            write_line(f"IDLE: {event!r} has never happened, so this sweep has tested too little")
        for share in tally.shares:
            write_line(str(share))
        for share_told in lenient:
            write_line(f"LENIENT: {share_told}: this sweep looks away too often")
        write_line(
            f"{tally.runs} schedules, {tally.simulated_s:.0f} simulated seconds, {tally.steps}"
            f" steps, {tally.acknowledged} records acknowledged, {tally.failures} broken, in"
            f" {seconds:.0f} s: {60 * tally.runs / seconds:.0f} schedules a minute"
        )

    def _document(
        self, seconds: float, idle: list[str], lenient: list[str], *, interrupted: bool
    ) -> dict[str, Any]:
        tally = self._tally
        return {
            "commit": self._commit,
            "machine": f"{platform.machine()} {platform.system()}, Python"
            f" {platform.python_version()}",
            "schedules": tally.runs,
            "simulated_s": round(tally.simulated_s, 3),
            "steps": tally.steps,
            "acknowledged": tally.acknowledged,
            "seconds": round(seconds, 1),
            "schedules_per_minute": round(60 * tally.runs / seconds, 1),
            "faults": dict(sorted(tally.struck.items())),
            "sometimes": dict(sorted(tally.sometimes.items())),
            "measures": {name: spread.document() for name, spread in sorted(tally.spreads.items())},
            "broken": tally.failures,
            "findings": [
                {
                    "invariant": finding.first.broken.invariant,
                    "what": finding.first.broken.what,
                    "schedules": finding.count,
                    "seeds": finding.seeds,
                    "plan": str(self._kept[kind]),
                }
                for kind, finding in tally.findings.items()
                if finding.first.broken is not None
            ],
            "idle": idle,
            "excused": {
                share.name: {"schedules": share.schedules, "partitions": share.partitions}
                for share in tally.shares
            },
            "lenient": lenient,
            "interrupted": interrupted,
        }


def _summary(finding: Finding) -> str:
    broken = finding.first.broken
    assert broken is not None
    others = [seed for seed in finding.seeds if seed != finding.first.plan.seed]
    more = ""
    if finding.count > 1:
        more = f" (and {finding.count - 1} like it: seeds {', '.join(map(str, others[:10]))})"
    return f"seed {finding.first.plan.seed}: {broken.invariant}: {broken.what}{more}"
